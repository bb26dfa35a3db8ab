//! `kiban-compare`: runs plans, reports on them, and checks them against targets.
#![forbid(unsafe_code)]

fn main() {}
