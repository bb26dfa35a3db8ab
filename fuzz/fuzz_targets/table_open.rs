//! One line over the body that the plain tests call too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kiban_crash::fuzz::table::table_open(data));
