/* SPDX-License-Identifier: MIT-0 */
/* What a sketch asks of the Arduino core, on this machine. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stdio.h>

struct SerialPort {
    void begin(long) {}
    void print(const char *text) { fputs(text, stdout); }
    void println(const char *text) { puts(text); }
};
static SerialPort Serial;
static inline void delay(unsigned long) {}

void setup();
void loop();

#endif
