//! The `kiban-crash` runner.
fn main() {}
