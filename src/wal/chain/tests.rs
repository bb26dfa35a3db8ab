//! Judging chains of logs.

use super::*;
use crate::base::key::DatabaseId;
use crate::env::Env;
use crate::wal::{LogStart, LogWriter, scan};

const DB: DatabaseId = DatabaseId(7);

#[test]
fn a_whole_log_is_replayed_whole() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let env = Env::os();
    let start = LogStart {
        predecessor: LogPosition::default(),
        synced: LogPosition::default(),
        manifest: ManifestMark::default(),
        next_seq: SeqNo(1),
    };
    let number = FileNumber(3);
    let mut log = LogWriter::create(&*env.fs, dir.path(), number, DB, &start, 4096)?;
    log.append(SeqNo(1), 2, b"two", LogPosition::default())?;
    log.append(SeqNo(3), 1, b"one", log.position())?;
    let bytes = crate::env::fs::read_file(&*env.fs, log.path(), 1 << 20).expect("the log");
    let scans = [scan(log.path(), &bytes, DB, number)?];
    let replay = judge(dir.path(), &scans, &Start::default())?;
    assert_eq!(replay.frames, [(0, 1), (0, 2)]);
    assert_eq!((replay.last_seq, replay.seq_floor), (SeqNo(3), SeqNo(3)));
    assert_eq!((replay.end, replay.dropped), (log.position(), None));
    Ok(())
}
