//! After a failed write nothing more is written; what wrote nothing poisons nothing.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use millpond_store_api::{
    Capabilities, Cursor, Direction, Empty, Error, ErrorKind, Flush, List, Poison, Range, Read, Result, Shard,
    ShardReader, SpaceId, Writes,
};

/// A shard that notes its calls, and fails the one it is told to.
struct Script {
    calls: Arc<Mutex<Vec<&'static str>>>,
    fail: Option<(&'static str, ErrorKind)>,
}

impl Script {
    fn call(&self, name: &'static str) -> Result<()> {
        self.calls.lock().unwrap().push(name);
        match self.fail {
            Some((at, kind)) if at == name => Err(Error::new(kind, "play")),
            _ => Ok(()),
        }
    }
}

impl Read for Script {
    fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.call("get").map(|()| false)
    }

    fn multi_get(&self, _: SpaceId, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.call("multi_get")
    }

    fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.call("scan").map(|()| Box::new(Empty) as _)
    }

    fn approximate_num_entries(&self, _: SpaceId) -> Result<u64> {
        self.call("approximate_num_entries").map(|()| 0)
    }
}

impl Shard for Script {
    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, overlapped_reads: true, ..Capabilities::default() }
    }

    fn apply(&mut self, _: &mut dyn Writes, _: &[u8]) -> Result<()> {
        self.call("apply")
    }

    fn committed(&self) -> Option<&[u8]> {
        Some(b"committed")
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        self.call("durable").map(|()| Some(&b"durable"[..]))
    }

    fn flush(&mut self, _: Flush) -> Result<()> {
        self.call("flush")
    }

    fn drop_below(&mut self, _: SpaceId, _: &[u8]) -> Result<()> {
        self.call("drop_below")
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        panic!("no test asks for a reader")
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.call("close")
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        self.call("destroy")
    }

    fn checkpoint(&mut self, _: &Path) -> Result<()> {
        self.call("checkpoint")
    }
}

type Calls = Arc<Mutex<Vec<&'static str>>>;

fn script(fail: Option<(&'static str, ErrorKind)>) -> (Box<Poison>, Calls) {
    let calls = Calls::default();
    (Box::new(Poison::new(Box::new(Script { calls: Arc::clone(&calls), fail }))), calls)
}

const WRITES: [&str; 5] = ["apply", "durable", "flush", "drop_below", "checkpoint"];
const READS: [&str; 4] = ["get", "multi_get", "scan", "approximate_num_entries"];
const SPACE: SpaceId = SpaceId(1);

fn call(shard: &mut Poison, name: &str) -> Result<()> {
    match name {
        "apply" => shard.apply(&mut List::new(&[]), b""),
        "durable" => shard.durable().map(drop),
        "flush" => shard.flush(Flush::Wait),
        "drop_below" => shard.drop_below(SPACE, b""),
        "checkpoint" => shard.checkpoint(Path::new("there")),
        "get" => shard.get(SPACE, b"", &mut |_| ()).map(drop),
        "multi_get" => shard.multi_get(SPACE, &[], &mut |_, _| ()),
        "scan" => shard.scan(SPACE, Range::ALL, Direction::Forward).map(drop),
        "approximate_num_entries" => shard.approximate_num_entries(SPACE).map(drop),
        other => panic!("there is no call `{other}`"),
    }
}

#[test]
fn a_failed_write_refuses_all_later_writes_and_no_read() {
    for failing in WRITES {
        for kind in [ErrorKind::Io, ErrorKind::Full, ErrorKind::Corrupt, ErrorKind::Invalid] {
            let (mut shard, calls) = script(Some((failing, kind)));
            assert_eq!(call(&mut shard, failing).unwrap_err().kind(), kind, "the first error is handed on as it is");
            calls.lock().unwrap().clear();
            for write in WRITES {
                assert_eq!(call(&mut shard, write).unwrap_err().kind(), ErrorKind::Poisoned, "{write} after {failing}");
            }
            assert!(calls.lock().unwrap().is_empty(), "a poisoned shard is called");
            READS.iter().for_each(|read| call(&mut shard, read).unwrap());
            assert_eq!(*calls.lock().unwrap(), READS);
            assert_eq!(shard.committed(), Some(&b"committed"[..]));
        }
    }
}

#[test]
fn what_wrote_nothing_poisons_nothing() {
    for failing in WRITES {
        for kind in [ErrorKind::Unsupported, ErrorKind::Retry] {
            let (mut shard, calls) = script(Some((failing, kind)));
            assert_eq!(call(&mut shard, failing).unwrap_err().kind(), kind);
            calls.lock().unwrap().clear();
            for write in WRITES.into_iter().filter(|write| *write != failing) {
                call(&mut shard, write).unwrap();
            }
            assert_eq!(calls.lock().unwrap().len(), WRITES.len() - 1);
        }
    }
}

#[test]
fn a_failed_read_poisons_nothing() {
    for failing in READS {
        let (mut shard, _) = script(Some((failing, ErrorKind::Io)));
        assert_eq!(call(&mut shard, failing).unwrap_err().kind(), ErrorKind::Io);
        WRITES.iter().for_each(|write| call(&mut shard, write).unwrap());
    }
}

#[test]
fn a_poisoned_shard_is_closed_and_destroyed() {
    for end in ["close", "destroy"] {
        let (mut shard, calls) = script(Some(("flush", ErrorKind::Io)));
        call(&mut shard, "flush").unwrap_err();
        if end == "close" {
            shard.close().unwrap()
        } else {
            shard.destroy().unwrap()
        }
        assert_eq!(*calls.lock().unwrap(), ["flush", end]);
    }
}

#[test]
fn a_sound_shard_is_seen_as_it_is() {
    let (mut shard, calls) = script(None);
    for name in WRITES.into_iter().chain(READS) {
        call(&mut shard, name).unwrap();
    }
    assert_eq!(calls.lock().unwrap().len(), WRITES.len() + READS.len());
    assert!(shard.capabilities().persistent && shard.capabilities().overlapped_reads);
    assert_eq!(shard.durable().unwrap(), Some(&b"durable"[..]));
    assert!(format!("{shard:?}").contains("poisoned: false"));
}

#[test]
fn errors_say_what_failed_with_what_and_why() {
    let cause = std::io::Error::other("no room");
    let error = Error::new(ErrorKind::Full, "apply batch").with("space", 7).with("dir", "state/0_1").caused_by(cause);
    assert_eq!(error.to_string(), "apply batch failed: no space left space=`7` dir=`state/0_1`");
    assert!(format!("{error:?}").contains("no room"));
    assert_eq!(std::error::Error::source(&error).map(ToString::to_string).as_deref(), Some("no room"));
    assert_eq!((error.kind(), error.op()), (ErrorKind::Full, "apply batch"));
    assert_eq!(error.context().collect::<Vec<_>>(), [("space", "7"), ("dir", "state/0_1")]);
    let kinds = [
        ErrorKind::Retry,
        ErrorKind::Io,
        ErrorKind::Full,
        ErrorKind::Corrupt,
        ErrorKind::Invalid,
        ErrorKind::Unsupported,
        ErrorKind::Poisoned,
    ];
    let mut names = kinds.map(ErrorKind::name);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}
