//! Kiban inside a program: a shop's stock, with batches, snapshots, scans and a reopen.
//!
//! `cargo run --example embedding` runs it in a temporary directory; the tests run it too.

use kiban::{Kiban, KibanOptions, WriteBatch};
use std::error::Error;
use std::path::Path;

/// Runs the example in `dir` and returns what it printed.
pub fn run(dir: &Path) -> Result<String, Box<dyn Error>> {
    let path = dir.join("stock");
    let mut shop = Kiban::open(&path, KibanOptions::new())?;

    // Buffered writes are handed to the kernel: they survive this process, not a power cut.
    for (item, count) in [("stock/apple", "12"), ("stock/pear", "7"), ("stock/plum", "30")] {
        shop.put(item, count)?;
    }

    // A sale is all or nothing, and it is on the disk when the call returns.
    let morning = shop.snapshot()?;
    let mut sale = WriteBatch::new();
    sale.put("stock/apple", "10").put("sold/0001", "2 apples").delete("stock/pear");
    shop.write_durable(&sale)?;

    // The snapshot still shows the morning; the shop shows the sale.
    let mut out = String::new();
    for (when, view) in [("morning", morning.prefix("stock/")?), ("now", shop.prefix("stock/")?)] {
        for item in view {
            let (key, value) = item?;
            let (key, value) = (str::from_utf8(&key)?, str::from_utf8(&value)?);
            out += &format!("{when}: {key} = {value}\n");
        }
    }

    // `get_with` lends the value instead of copying it.
    let bytes = shop.get_with("sold/0001", <[u8]>::len)?;
    out += &format!("sold/0001 has {} bytes\n", bytes.unwrap_or(0));

    // Close reports what a drop could not.
    drop(morning);
    shop.close()?;
    let shop = Kiban::open(&path, KibanOptions::new())?;
    let last = shop.range("stock/".."stock0")?.next_back().transpose()?;
    let (key, _) = last.ok_or("the stock is empty")?;
    out += &format!("after a reopen the last item is {}\n", str::from_utf8(&key)?);
    print!("{out}");
    Ok(out)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    run(dir.path()).map(drop)
}
