//! The line in `CURRENT`, and its replacement on a real directory.

use super::*;
use crate::env::fs::OpenMode;

const DB: DatabaseId = DatabaseId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
const GOLDEN: &str = "kiban 0 000012.manifest 0123456789abcdef0011223344556677 0a14211d\n";

fn current() -> Current {
    Current { manifest: FileNumber(12), db: DB }
}

fn decode(text: &[u8]) -> Result<Current> {
    Current::decode(Path::new("CURRENT"), text)
}

#[test]
fn golden_line() {
    assert_eq!(current().encode(), GOLDEN);
    assert_eq!(decode(GOLDEN.as_bytes()).expect("golden"), current());
}

#[test]
fn every_other_line_is_refused() {
    for cut in 0..GOLDEN.len() {
        assert!(decode(&GOLDEN.as_bytes()[..cut]).expect_err("cut").is_corruption(), "{cut}");
    }
    for at in 0..GOLDEN.len() {
        for flip in [1, 2, 4, 32, 128] {
            let mut bad = GOLDEN.as_bytes().to_vec();
            bad[at] ^= flip;
            let error = decode(&bad).expect_err("flipped");
            let newer = matches!(error, Error::UnsupportedFormat { .. });
            assert!(error.is_corruption() || (newer && at == 6), "{at}: {error}");
        }
    }
    let newer = GOLDEN.replace("kiban 0", "kiban 7");
    let error = decode(newer.as_bytes()).expect_err("newer");
    assert!(matches!(error, Error::UnsupportedFormat { found: 7, supported: 0, .. }));
    assert!(decode(&[GOLDEN.as_bytes(), b"\n"].concat()).is_err());
    assert!(decode(b"\xff\xfe").is_err());
}

#[test]
fn install_replaces_and_leaves_nothing_beside() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let env = Env::os();
    assert_eq!(read(&env, dir.path())?, None);
    // What a crash left behind is in nobody's way.
    env.fs.create(&dir.path().join(CURRENT_TMP)).expect("a torn CURRENT.tmp");
    for number in [3, 12] {
        install(&env, dir.path(), FileNumber(number), DB)?;
        let expected = Current { manifest: FileNumber(number), db: DB };
        assert_eq!(read(&env, dir.path())?, Some(expected));
        assert_eq!(env.fs.list(dir.path()).expect("a list"), [CURRENT]);
    }
    let file = env.fs.open(&dir.path().join(CURRENT), OpenMode::ReadWrite).expect("CURRENT");
    file.set_len(1 << 20).expect("longer");
    assert!(read(&env, dir.path()).expect_err("too long").is_corruption());
    Ok(())
}
