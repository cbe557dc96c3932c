//! Real kills: a child process applies numbered batches and is killed by SIGKILL at a seeded moment, over and over in the
//! same directory; each time its shard must reopen as "all batches up to n", in all spaces and in the metadata.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use millpond_store_api::{
    Direction, Engine, ErrorKind, Flush, List, Range, Shard, ShardSpec, SpaceId, SpaceSpec, Write,
};
use millpond_store_rocks::{RocksEngine, RocksSettings};

const DIR: &str = "MILLPOND_CRASH_DIR";
const UNLOGGED: &str = "MILLPOND_CRASH_UNLOGGED";

const SPACES: [SpaceId; 4] = [SpaceId(0), SpaceId(1), SpaceId(300), SpaceId(7)];
const EXPIRING: SpaceId = SPACES[3];

/// A small budget: full memtables, the flusher and the writer's own calls all flush.
fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings {
        memory_bytes: Some(8 << 20),
        flush_bytes: 256 << 10,
        flush_interval: Duration::from_millis(200),
        shards: 2,
    })
    .unwrap()
}

fn open(engine: &RocksEngine, dir: &Path, unlogged: bool) -> Box<dyn Shard> {
    let spaces = SPACES.map(|id| SpaceSpec { id, name: format!("s{}", id.0), expires: id == EXPIRING });
    engine.open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged }).unwrap()
}

fn number(metadata: Option<&[u8]>) -> u64 {
    metadata.map_or(0, |m| u64::from_be_bytes(m.try_into().unwrap()))
}

type Rows = Vec<(SpaceId, Vec<u8>, Option<Vec<u8>>)>;

/// The batch with a number: a row of a ring, random puts and deletes, now and then a large row, and windowed rows.
fn batch(n: u64) -> Rows {
    let mut random = fastrand::Rng::with_seed(n);
    let value = |random: &mut fastrand::Rng, len: usize| {
        let mut value = n.to_be_bytes().to_vec();
        value.extend(std::iter::repeat_with(|| random.u8(..)).take(len));
        Some(value)
    };
    let mut rows = vec![(SPACES[0], (n % 500).to_be_bytes().to_vec(), value(&mut random, 20))];
    for _ in 0..random.usize(..20) {
        let key = random.u32(..2000).to_be_bytes().to_vec();
        let len = random.usize(..100);
        rows.push((SPACES[1], key, if random.u8(..4) == 0 { None } else { value(&mut random, len) }));
    }
    if n.is_multiple_of(7) {
        let len = random.usize(..20_000);
        rows.push((SPACES[2], vec![random.u8(..50)], value(&mut random, len)));
    }
    for _ in 0..random.usize(..6) {
        let mut key = (minute(n) + random.u32(..3)).to_be_bytes().to_vec();
        key.extend([0, 1, random.u8(1..), 0, 1]);
        key.extend(n.to_be_bytes());
        rows.push((EXPIRING, key, value(&mut random, 50)));
    }
    rows
}

fn minute(n: u64) -> u32 {
    1000 + (n / 50) as u32
}

/// What has expired once batch `n` is applied.
fn bound(n: u64) -> [u8; 4] {
    (minute(n / 100 * 100) - 4).to_be_bytes()
}

/// Applies batches, flushes in different ways, and says so: `@apply n` before a batch and `@applied n` after it, `@flush n`
/// before a flush, `@durable n` when told so.
fn write(shard: &mut dyn Shard, batches: u64, mut say: impl FnMut(&str, u64)) {
    let first = number(shard.committed()) + 1;
    for n in first..first.saturating_add(batches) {
        say("apply", n);
        let rows = batch(n);
        let writes: Vec<_> =
            rows.iter().map(|(space, key, value)| Write { space: *space, key, value: value.as_deref() }).collect();
        shard.apply(&mut List::new(&writes), &n.to_be_bytes()).unwrap();
        say("applied", n);
        if n.is_multiple_of(100) {
            shard.drop_below(EXPIRING, &bound(n)).unwrap();
        }
        let how = match n % 41 {
            3 | 17 => Some(Flush::Start),
            30 => Some(Flush::Wait),
            _ => None,
        };
        if let Some(how) = how {
            say("flush", n);
            shard.flush(how).unwrap();
        }
        if n.is_multiple_of(5) || how == Some(Flush::Wait) {
            say("durable", number(shard.durable().unwrap()));
        }
    }
}

/// The fold of all batches up to a number.
#[derive(Default)]
struct Model {
    n: u64,
    spaces: BTreeMap<SpaceId, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Model {
    fn advance(&mut self, to: u64) {
        while self.n < to {
            self.n += 1;
            for (space, key, value) in batch(self.n) {
                let rows = self.spaces.entry(space).or_default();
                match value {
                    Some(value) => rows.insert(key, value),
                    None => rows.remove(&key),
                };
            }
        }
    }

    /// Compares everything; in the expiring space what lies at or above `low`.
    fn check(&self, shard: &dyn Shard, low: &[u8], what: &str) {
        assert_eq!(number(shard.committed()), self.n, "{what}");
        for space in SPACES {
            let low = if space == EXPIRING { low } else { &[] };
            let mut cursor = shard.scan(space, Range::ALL, Direction::Forward).unwrap();
            let mut want = self.spaces.get(&space).into_iter().flatten().filter(|(key, _)| key.as_slice() >= low);
            while let Some(row) = cursor.next().unwrap() {
                if row.key < low {
                    continue;
                }
                let (key, value) = want.next().unwrap_or_else(|| panic!("{what}: a row too many in {space:?}"));
                assert!(row.key == key && row.value == value, "{what}: another row in {space:?} than at {}", self.n);
            }
            assert!(want.next().is_none(), "{what}: rows of {space:?} are missing at {}", self.n);
        }
    }
}

/// The child's program. Without its variable it is a test of the same batches without a kill.
#[test]
fn writer() {
    let Some(dir) = std::env::var_os(DIR) else {
        let temp = tempfile::tempdir().unwrap();
        let mut shard = open(&engine(), temp.path(), false);
        write(&mut *shard, 250, |_, _| {});
        shard.close().unwrap();
        let mut model = Model::default();
        model.advance(250);
        return model.check(&*open(&engine(), temp.path(), false), &bound(250), "closed");
    };
    let mut shard = open(&engine(), Path::new(&dir), std::env::var_os(UNLOGGED).is_some());
    let mut out = std::io::stderr();
    write(&mut *shard, u64::MAX, |what, n| {
        // One short write: the pipe takes a line wholly or not at all.
        out.write_all(format!("@{what} {n}\n").as_bytes()).unwrap();
    });
}

fn spawn(dir: &Path, unlogged: bool) -> (Child, BufReader<ChildStderr>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture"]).env(DIR, dir).stdout(Stdio::null()).stderr(Stdio::piped());
    if unlogged {
        command.env(UNLOGGED, "1");
    }
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stderr.take().unwrap());
    (child, out)
}

/// What a child said before it died.
#[derive(Debug, Default)]
struct Said {
    announced: u64,
    applied: u64,
    durable: u64,
    flushes: u64,
}

impl Said {
    /// Takes in a line; false at the end.
    fn hear(&mut self, out: &mut impl BufRead) -> bool {
        let mut line = String::new();
        if out.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        let (what, n) = line.strip_prefix('@').and_then(|l| l.trim_end().split_once(' ')).expect(&line);
        let n: u64 = n.parse().unwrap();
        match what {
            "apply" => self.announced = n,
            "applied" => self.applied = n,
            "durable" => self.durable = n,
            "flush" => self.flushes += 1,
            _ => panic!("{line}"),
        }
        true
    }
}

/// Kills a child at a seeded moment: some time after it has announced its n-th batch or flush.
fn run_and_kill(dir: &Path, unlogged: bool, random: &mut fastrand::Rng) -> Said {
    let (mut child, mut out) = spawn(dir, unlogged);
    let mut said = Said::default();
    let in_flush = random.bool();
    let after = random.u64(1..if in_flush { 25 } else { 400 });
    let mut heard = 0;
    while heard < after {
        let before = (said.announced, said.flushes);
        assert!(said.hear(&mut out), "the writer ended by itself");
        heard += if in_flush { said.flushes - before.1 } else { u64::from(said.announced != before.0) };
    }
    for _ in 0..random.u32(..30_000) {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while said.hear(&mut out) {}
    said
}

/// Whether openings are unlogged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unlogged {
    Never,
    Always,
    /// The child's and ours, each by chance.
    Sometimes,
}

impl Unlogged {
    fn next(self, random: &mut fastrand::Rng) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Sometimes => random.bool(),
        }
    }
}

fn kills(unlogged: Unlogged, seed: u64, kills: u64) {
    let kills = if std::env::var_os("MILLPOND_SLOW").is_some() { kills * 10 } else { kills };
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut model, mut low) = (Model::default(), [0; 4]);
    let (mut lost, mut went_on) = (0, 0);
    for kill in 0..kills {
        let logs = unlogged.next(&mut random);
        let said = run_and_kill(temp.path(), logs, &mut random);
        let mut shard = open(&engine, temp.path(), unlogged.next(&mut random));
        let n = number(shard.committed());
        let what = format!("kill {kill} of seed {seed}, reopened at {n}, unlogged {logs}, {said:?}");
        let least = if logs { said.applied.max(model.n) } else { said.durable.max(model.n) };
        assert!((least..=said.announced.max(model.n)).contains(&n), "{what}");
        assert_eq!(number(shard.durable().unwrap()), n, "{what}");
        lost += u64::from(said.applied > n);
        went_on += u64::from(n > model.n);
        model.advance(n);
        // A bound that was passed before the kill holds on: the files below it may be gone.
        low = low.max(bound(said.announced));
        model.check(&*shard, &low, &what);
        if random.bool() {
            shard.close().unwrap();
        }
    }
    println!("{kills} kills, {went_on} after progress, {lost} with batches to read again, {} batches in all", model.n);
    assert!(went_on > kills / 2, "the writer was killed too early to mean much: {went_on} of {kills}");
    assert_eq!(lost > 0, unlogged != Unlogged::Always, "without a log kills lose the tail, with one they lose nothing");
}

#[test]
fn a_killed_shard_reopens_at_its_last_flush_or_later() {
    kills(Unlogged::Never, 1, 100);
}

#[test]
fn an_unlogged_shard_that_is_killed_loses_nothing() {
    kills(Unlogged::Always, 2, 20);
}

#[test]
fn logs_come_and_go_between_kills() {
    kills(Unlogged::Sometimes, 3, 40);
}

#[test]
fn a_directory_held_by_another_process_is_asked_for_again() {
    let temp = tempfile::tempdir().unwrap();
    let (mut child, mut out) = spawn(temp.path(), false);
    assert!(Said::default().hear(&mut out));
    let error = engine().open(&ShardSpec { dir: Some(temp.path()), spaces: &[], unlogged: false }).err().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(error.to_string().contains(&temp.path().display().to_string()), "{error}");
    drop(open(&engine(), temp.path(), false));
}
