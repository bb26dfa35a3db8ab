//! `kiban-crash trace`: a given trace against the engine, on a real directory and on the simulated
//! disk with crashes.

pub mod read;
