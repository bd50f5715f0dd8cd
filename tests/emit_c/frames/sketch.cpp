/* SPDX-License-Identifier: Apache-2.0 */
/* The program around a sketch: one turn. */
int main() {
    setup();
    loop();
    return 0;
}
