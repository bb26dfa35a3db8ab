//! The `kiban-crash` command; all of it is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    kiban_crash::runner::main()
}
