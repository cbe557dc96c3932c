//! The commands of `changelog_records.json`, and what each of them is to log.

use crate::case::{Case, Header, Outcome};

/// What a store is told to write.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) key: Key,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) ts: i64,
    pub(crate) headers: Vec<Header>,
}

/// The key of a row, by the kind of its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Plain(Vec<u8>),
    Window { key: Vec<u8>, start: i64, seqnum: i32 },
    Session { key: Vec<u8>, start: i64, end: i64 },
}

/// A store as far as its changelog depends on what was written before.
pub(crate) struct Store<'a> {
    pub(crate) kind: &'a str,
    pub(crate) retain_duplicates: bool,
    /// How many rows it keeps, those that were used last; none if all.
    pub(crate) lru_entries: Option<usize>,
    seqnum: i32,
    /// Keys of an LRU store, the one that was used last behind.
    used: Vec<Vec<u8>>,
}

impl<'a> Store<'a> {
    pub(crate) fn new(case: &Case<'a>) -> Outcome<Self> {
        case.text("name")?;
        // Neither of them shows in a changelog.
        let _ = (case.find("engine"), case.find("window_ms"));
        let _ = (case.find("retention_ms"), case.find("history_ms"));
        let lru_entries = case.find("lru_entries").and_then(|n| usize::try_from(n.as_u64()?).ok());
        let retain_duplicates = case.find("retain_duplicates").is_some_and(|v| v == true);
        Ok(Self { kind: case.text("kind")?, retain_duplicates, lru_entries, seqnum: 0, used: Vec::new() })
    }

    /// What a command logs, in order.
    pub(crate) fn updates(&mut self, case: &Case<'_>) -> Outcome<Vec<Update>> {
        let (ts, headers, answer) = (case.int("ts")?, case.headers("headers")?, case.text("answer")?);
        let words: Vec<_> = case.text("command")?.split(' ').collect();
        let update = |key, value| Update { key, value, ts, headers: headers.clone() };
        let number = |word: &str| word.parse::<i64>().map_err(|e| format!("{word}: {e}"));
        Ok(match (self.kind, words.as_slice()) {
            (_, ["put_if_absent", ..]) if answer != "null" => Vec::new(),
            ("kv" | "timestamped_kv" | "headers_kv", ["put" | "put_if_absent", key, new]) => {
                let mut updates = self.used(&text(key), value(new).is_some(), &update);
                updates.push(update(Key::Plain(text(key)), value(new)));
                updates
            }
            ("kv" | "timestamped_kv" | "headers_kv", ["delete", key]) => {
                self.used(&text(key), false, &update);
                vec![update(Key::Plain(text(key)), None)]
            }
            ("kv" | "timestamped_kv" | "headers_kv", ["put_all", pairs @ ..]) => {
                let evicted =
                    pairs.chunks(2).flat_map(|pair| self.used(&text(pair[0]), value(pair[1]).is_some(), &update));
                let mut updates: Vec<_> = evicted.collect();
                updates.extend(pairs.chunks(2).map(|pair| update(Key::Plain(text(pair[0])), value(pair[1]))));
                updates
            }
            ("window" | "timestamped_window" | "headers_window", ["put", key, new, start]) => {
                self.seqnum += i32::from(self.retain_duplicates);
                let key = Key::Window { key: text(key), start: number(start)?, seqnum: self.seqnum };
                vec![update(key, value(new))]
            }
            ("session" | "headers_session", ["put", key, start, end, new]) => {
                vec![update(Key::Session { key: text(key), start: number(start)?, end: number(end)? }, value(new))]
            }
            ("session" | "headers_session", ["remove", key, start, end]) => {
                vec![update(Key::Session { key: text(key), start: number(start)?, end: number(end)? }, None)]
            }
            // The time of a version is that of its record, not of the record that is processed.
            ("versioned_kv", ["put", key, new, at]) => {
                vec![Update { ts: number(at)?, ..update(Key::Plain(text(key)), value(new)) }]
            }
            ("versioned_kv", ["delete", key, at]) => {
                vec![Update { ts: number(at)?, ..update(Key::Plain(text(key)), None) }]
            }
            (kind, words) => return Err(format!("unknown command {words:?} of {kind}")),
        })
    }

    /// Notes the use of a key in an LRU store, which evicts the oldest one for it.
    fn used(&mut self, key: &[u8], stays: bool, update: &dyn Fn(Key, Option<Vec<u8>>) -> Update) -> Vec<Update> {
        let Some(entries) = self.lru_entries else { return Vec::new() };
        self.used.retain(|used| used != key);
        if stays {
            self.used.push(key.to_vec());
        }
        let evicted = self.used.len().saturating_sub(entries);
        self.used.drain(..evicted).map(|key| update(Key::Plain(key), None)).collect()
    }
}

fn text(word: &str) -> Vec<u8> {
    word.trim_matches('\'').as_bytes().to_vec()
}

fn value(word: &str) -> Option<Vec<u8>> {
    (word != "-").then(|| text(word))
}
