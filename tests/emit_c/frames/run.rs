// SPDX-License-Identifier: Apache-2.0
//! One run of digits: the input from stdin, the output to stdout.
use aot_digits::{Arena, Input0, Network, Output0, Status};
use std::io::{Read, Write};

fn main() {
    let mut bytes = [0u8; core::mem::size_of::<Input0>()];
    std::io::stdin().read_exact(&mut bytes).unwrap();
    let mut input: Input0 = [0.0; 64];
    for (number, word) in input.iter_mut().zip(bytes.chunks(4)) {
        *number = f32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
    }
    let mut output: Output0 = [0.0; 10];
    let mut arena = Arena::new();
    Network::new(&mut arena).unwrap().run(&input, &mut output).unwrap();
    assert_eq!(Status(3).to_string(), "a tensor has the wrong shape");
    for number in &output {
        std::io::stdout().write_all(&number.to_ne_bytes()).unwrap();
    }
}
