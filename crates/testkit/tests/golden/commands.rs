//! The processor that runs the commands in its records' values against a store, of any kind.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Bound;

use millpond_topology::{
    AggregateWithHeaders, AggregationWithHeaders, Context, Error, ErrorKind, Headers, Nullable, Plain, Processor,
    Record, Result, Rows, SessionView, Stamped, StampedWithHeaders, StoreKind, StoreRef, StoreView, Utf8,
    ValueAndTimestamp, ValueTimestampHeaders, Values, VersionPut, Versioned, VersionedRecord, WindowView, Windowed,
    WindowedRows, Writable,
};

use crate::hex::hex;
use crate::value::{Cell, Val};

/// Texts, of which a case may want null.
pub(crate) type Text = Option<String>;
pub(crate) const TEXT: Nullable<Utf8> = Nullable(Utf8);

type Message = Record<Cell, Cell>;

/// What a store has as value.
pub(crate) trait Stored {
    fn of(text: Text, record: &Message) -> Self;

    fn show(&self) -> String;
}

fn show(text: &Text) -> String {
    text.clone().unwrap_or("null".into())
}

fn show_headers(headers: &Headers) -> String {
    let header = |h: &millpond_topology::Header| {
        let value = h.value.as_deref().map_or("null".into(), |value| format!("\"{}\"", hex(value)));
        format!("[\"{}\", {value}]", h.name)
    };
    format!("[{}]", headers.iter().map(header).collect::<Vec<_>>().join(", "))
}

impl Stored for Text {
    fn of(text: Text, _: &Message) -> Self {
        text
    }

    fn show(&self) -> String {
        show(self)
    }
}

impl Stored for ValueAndTimestamp<Text> {
    fn of(value: Text, record: &Message) -> Self {
        Self { value, timestamp: record.timestamp }
    }

    fn show(&self) -> String {
        format!("{}@{}", show(&self.value), self.timestamp)
    }
}

impl Stored for ValueTimestampHeaders<Text> {
    fn of(value: Text, record: &Message) -> Self {
        Self { value, timestamp: record.timestamp, headers: record.headers.clone() }
    }

    fn show(&self) -> String {
        format!("{}@{}{}", show(&self.value), self.timestamp, show_headers(&self.headers))
    }
}

impl Stored for AggregationWithHeaders<Text> {
    fn of(aggregation: Text, record: &Message) -> Self {
        Self { aggregation, headers: record.headers.clone() }
    }

    fn show(&self) -> String {
        format!("{}{}", show(&self.aggregation), show_headers(&self.headers))
    }
}

/// A command: its words, and the record that it came with.
pub(crate) struct Command<'a> {
    words: Vec<&'a str>,
    record: &'a Message,
}

impl Command<'_> {
    fn text(&self, at: usize) -> Text {
        match self.words.get(at) {
            None | Some(&"-") => None,
            Some(&"''") => Some(String::new()),
            Some(word) => Some((*word).to_owned()),
        }
    }

    fn number(&self, at: usize) -> Result<i64> {
        match self.words.get(at) {
            Some(&"max") => Ok(i64::MAX),
            Some(&"min") => Ok(i64::MIN),
            Some(word) => Ok(word.parse()?),
            None => Err(Error::other("a command is too short")),
        }
    }

    fn value<V: Stored>(&self, at: usize) -> V {
        V::of(self.text(at), self.record)
    }

    /// Two words as the keys of a range.
    fn keys(&self, at: usize) -> (Bound<Text>, Bound<Text>) {
        let bound = |at| self.text(at).map_or(Bound::Unbounded, |key| Bound::Included(Some(key)));
        (bound(at), bound(at + 1))
    }
}

/// How the commands of a kind are run.
pub(crate) trait Commands: Sized + Send + 'static {
    fn run(&mut self, cx: &mut Context<'_, Runner<Self>>, command: &Command<'_>) -> Result<String>;
}

/// The processor. It forwards the answers as text under their records' keys, times and headers.
pub(crate) struct Runner<C>(pub(crate) C);

impl<C: Commands> Processor for Runner<C> {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Message) -> Result {
        let text = record.value.as_ref().map(Val::to_string).ok_or_else(|| Error::other("no command"))?;
        let command = Command { words: text.split(' ').collect(), record: &record };
        let answer = match self.0.run(cx, &command) {
            Err(error) if is_of_a_null_key(&error) => "error NullPointerException".to_owned(),
            answer => answer?,
        };
        cx.forward(record.with_value(Some(Val::Text(answer))))
    }
}

fn is_of_a_null_key(error: &Error) -> bool {
    let told = |(_, fact): (&str, &str)| fact == "a store's key cannot be null";
    error.kind() == ErrorKind::Serialization && error.context().any(told)
}

#[cold]
fn unknown<T>(command: &Command<'_>) -> Result<T> {
    Err(Error::other(format!("unknown command `{}`", command.words.join(" "))))
}

/// Key-value stores of any kind. As in Kafka Streams, deletes of what is not there are in the log.
pub(crate) struct KeyValueCommands<T: StoreKind, C> {
    store: StoreRef<T>,
    least_recent: Option<LeastRecent>,
    values: PhantomData<fn() -> C>,
}

impl<T: StoreKind, C> KeyValueCommands<T, C> {
    pub(crate) fn new(store: StoreRef<T>, lru_entries: Option<usize>) -> Self {
        let least_recent = lru_entries.map(|entries| LeastRecent { entries, keys: VecDeque::new() });
        Self { store, least_recent, values: PhantomData }
    }
}

/// The keys of a store that is to have no more than some entries: the one that was not used for longest goes first.
struct LeastRecent {
    entries: usize,
    keys: VecDeque<Text>,
}

impl LeastRecent {
    fn forget(&mut self, key: &Text) -> Option<Text> {
        let found = self.keys.iter().position(|k| k == key);
        found.and_then(|at| self.keys.remove(at))
    }

    /// A key that is there was used.
    fn used(&mut self, key: &Text) {
        if self.forget(key).is_some() {
            self.keys.push_back(key.clone());
        }
    }

    /// A key is to be put; answers which one has to go for it.
    fn put(&mut self, key: &Text) -> Option<Text> {
        let is_new = self.forget(key).is_none();
        self.keys.push_back(key.clone());
        if is_new && self.keys.len() > self.entries { self.keys.pop_front() } else { None }
    }
}

impl<T, C> KeyValueCommands<T, C>
where
    T: for<'a> StoreKind<View<'a, Writable> = StoreView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    fn rows(cx: &mut Context<'_, Runner<Self>>, mut rows: Rows<Text, C>) -> Result<String> {
        let mut shown = Vec::new();
        while let Some((key, value)) = rows.next(cx)? {
            shown.push(format!("{}={}", show(&key), value.show()));
        }
        Ok(shown.join(" "))
    }

    fn put(&mut self, view: &mut StoreView<'_, Text, C>, rows: Vec<(Text, C::Value)>) -> Result<String> {
        for (key, _) in &rows {
            if let Some(gone) = self.least_recent.as_mut().and_then(|keys| keys.put(key)) {
                view.delete(&gone)?;
            }
        }
        view.put_all(rows)?;
        Ok("ok".into())
    }
}

impl<T, C> Commands for KeyValueCommands<T, C>
where
    T: for<'a> StoreKind<View<'a, Writable> = StoreView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    fn run(&mut self, cx: &mut Context<'_, Runner<Self>>, command: &Command<'_>) -> Result<String> {
        let store = self.store.clone();
        let mut view = cx.store(&store)?;
        let key = command.text(1);
        let shown = |value: Option<C::Value>| value.map_or("null".into(), |value| value.show());
        let rows = match command.words.first().copied() {
            Some("put") => return self.put(&mut view, vec![(key, command.value(2))]),
            Some("put_all") => {
                let rows = (1..command.words.len()).step_by(2).map(|at| (command.text(at), command.value(at + 1)));
                return self.put(&mut view, rows.collect());
            }
            Some("put_if_absent") => {
                let old = view.put_if_absent(&key, &command.value(2))?;
                if old.is_none() && command.text(2).is_none() {
                    view.delete(&key)?;
                }
                return Ok(shown(old));
            }
            Some("delete") => {
                let old = view.get(&key)?;
                view.delete(&key)?;
                self.least_recent.iter_mut().for_each(|keys| drop(keys.forget(&key)));
                return Ok(shown(old));
            }
            Some("get") => {
                self.least_recent.iter_mut().for_each(|keys| keys.used(&key));
                return Ok(shown(view.get(&key)?));
            }
            Some("range") => view.range(command.keys(1))?,
            Some("reverse_range") => view.reverse_range(command.keys(1))?,
            Some("all") => view.all(),
            Some("reverse_all") => view.reverse_all(),
            Some("prefix") => view.prefix(&key.unwrap_or_default(), &Utf8)?,
            _ => return unknown(command),
        };
        Self::rows(cx, rows)
    }
}

fn windowed<K: Commands, C: Values<Value: Stored>>(
    cx: &mut Context<'_, Runner<K>>,
    mut rows: WindowedRows<Text, C>,
    row: fn(&Windowed<Text>) -> String,
) -> Result<String> {
    let mut shown = Vec::new();
    while let Some((key, value)) = rows.next(cx)? {
        shown.push(format!("{}={}", row(&key), value.show()));
    }
    Ok(shown.join(" "))
}

fn show_window(key: &Windowed<Text>) -> String {
    format!("{}[{},{}]", show(&key.key), key.start, key.end)
}

/// Window stores of any kind.
pub(crate) struct WindowCommands<T: StoreKind, C>(pub(crate) StoreRef<T>, pub(crate) PhantomData<fn() -> C>);

impl<T, C> Commands for WindowCommands<T, C>
where
    T: for<'a> StoreKind<View<'a, Writable> = WindowView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    fn run(&mut self, cx: &mut Context<'_, Runner<Self>>, command: &Command<'_>) -> Result<String> {
        let mut view = cx.store(&self.0)?;
        let key = command.text(1);
        let times = |at| Ok::<_, Error>(command.number(at)?..=command.number(at + 1)?);
        let one: fn(&Windowed<Text>) -> String = |key| key.start.to_string();
        let (rows, row): (_, fn(&Windowed<Text>) -> String) = match command.words.first().copied() {
            Some("put") => {
                // False says that it has expired, which Kafka Streams does not.
                view.put(&key, command.number(3)?, &command.value(2))?;
                return Ok("ok".into());
            }
            Some("get") => {
                let found = view.get(&key, command.number(2)?)?;
                return Ok(found.map_or("null".into(), |value| value.show()));
            }
            Some("fetch") => (view.fetch(&key, times(2)?)?, one),
            Some("backward_fetch") => (view.backward_fetch(&key, times(2)?)?, one),
            Some("fetch_keys") => (view.fetch_range(command.keys(1), times(3)?)?, show_window),
            Some("backward_fetch_keys") => (view.backward_fetch_range(command.keys(1), times(3)?)?, show_window),
            Some("fetch_all") => (view.fetch_all(times(1)?)?, show_window),
            Some("backward_fetch_all") => (view.backward_fetch_all(times(1)?)?, show_window),
            Some("all") => (view.all()?, show_window),
            Some("backward_all") => (view.backward_all()?, show_window),
            _ => return unknown(command),
        };
        windowed(cx, rows, row)
    }
}

/// Session stores of either kind.
pub(crate) struct SessionCommands<T: StoreKind, C>(pub(crate) StoreRef<T>, pub(crate) PhantomData<fn() -> C>);

impl<T, C> Commands for SessionCommands<T, C>
where
    T: for<'a> StoreKind<View<'a, Writable> = SessionView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    fn run(&mut self, cx: &mut Context<'_, Runner<Self>>, command: &Command<'_>) -> Result<String> {
        let mut view = cx.store(&self.0)?;
        let (key, number) = (command.text(1), |at| command.number(at));
        let session = || Ok::<_, Error>(Windowed { key: key.clone(), start: number(2)?, end: number(3)? });
        let rows = match command.words.first().copied() {
            Some("put") => {
                view.put(&session()?, &command.value(4))?;
                return Ok("ok".into());
            }
            Some("remove") => {
                view.remove(&session()?)?;
                return Ok("ok".into());
            }
            Some("get") => {
                let found = view.fetch_session(&key, number(2)?, number(3)?)?;
                return Ok(found.map_or("null".into(), |value| value.show()));
            }
            Some("fetch") => view.fetch(&key)?,
            Some("backward_fetch") => view.backward_fetch(&key)?,
            Some("fetch_keys") => view.fetch_range(command.keys(1))?,
            Some("backward_fetch_keys") => view.backward_fetch_range(command.keys(1))?,
            Some("find") => view.find_sessions(&key, number(2)?, number(3)?)?,
            Some("backward_find") => view.backward_find_sessions(&key, number(2)?, number(3)?)?,
            Some("find_keys") => view.find_sessions_range(command.keys(1), number(3)?, number(4)?)?,
            Some("backward_find_keys") => view.backward_find_sessions_range(command.keys(1), number(3)?, number(4)?)?,
            _ => return unknown(command),
        };
        windowed(cx, rows, show_window)
    }
}

/// Versioned stores. Kafka Streams does not say until when a version is valid.
pub(crate) struct VersionedCommands(pub(crate) StoreRef<Versioned<Text, Text>>);

impl Commands for VersionedCommands {
    fn run(&mut self, cx: &mut Context<'_, Runner<Self>>, command: &Command<'_>) -> Result<String> {
        let mut view = cx.store(&self.0)?;
        let key = command.text(1);
        let shown = |found: Option<VersionedRecord<Text>>| {
            found.map_or("null".into(), |found| format!("{}[{},)", show(&found.value), found.timestamp))
        };
        Ok(match command.words.first().copied() {
            Some("put") => match view.put(&key, Some(&command.text(2)), command.number(3)?)? {
                VersionPut::Latest => "valid_to none".into(),
                VersionPut::ValidTo(time) => format!("valid_to {time}"),
                VersionPut::TooOld => "not_put".into(),
            },
            Some("delete") => shown(view.delete(&key, command.number(2)?)?),
            Some("get") if command.words.len() == 2 => shown(view.get(&key)?),
            Some("get") => shown(view.get_as_of(&key, command.number(2)?)?),
            _ => return unknown(command),
        })
    }
}

/// The values of each kind.
pub(crate) type PlainText = Plain<Text>;
pub(crate) type StampedText = Stamped<Text>;
pub(crate) type TextWithHeaders = StampedWithHeaders<Text>;
pub(crate) type SessionTextWithHeaders = AggregateWithHeaders<Text>;
