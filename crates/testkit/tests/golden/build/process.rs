//! Processors and their stores.

use std::marker::PhantomData;
use std::time::Duration;

use millpond_topology::{
    KeyValue, Session, SessionView, SessionWithHeaders, StoreHandle, StoreKind, StoreSpec, StoreView, Stream,
    TimestampedKeyValue, TimestampedKeyValueWithHeaders, TimestampedWindow, TimestampedWindowWithHeaders, Values,
    Window, WindowView, Writable,
};

use super::{Formats, Interpreter, Result, broken};
use crate::case::{Engine, SessionStore, Store, WindowStore};
use crate::commands::{
    Commands, KeyValueCommands, PlainText, Runner, SessionCommands, SessionTextWithHeaders, StampedText, Stored, TEXT,
    Text, TextWithHeaders, VersionedCommands, WindowCommands,
};
use crate::op::Process;
use crate::processors::{AddHeader, CELL, CountByKey, ForwardMetadata, Hold, Punctuate, WithTimestamp};
use crate::value::{Cell, KeyKind, Kind};

type Cells = Stream<Cell, Cell>;

impl Interpreter<'_> {
    pub(super) fn process(&mut self, formats: &mut Formats, process: &Process, s: Cells) -> Result<Cells> {
        Ok(match process.clone() {
            Process::StoreCommands { stores: [name] } => return self.commands(formats, &name, s),
            Process::CountByKey { stores: [name] } => {
                let store = self.texts(formats, &name)?;
                s.process(&store, |_, store| Ok(CountByKey(store)))
            }
            Process::HoldUntilPunctuation { stores: [name], r#type, interval_ms } => {
                let store = self.texts(formats, &name)?;
                s.process(&store, move |init, store| {
                    init.schedule(r#type.schedule(interval_ms), Hold::release)?;
                    Ok(Hold(store))
                })
            }
            Process::Punctuate { r#type, interval_ms, start_ms, times } => s.process((), move |init, ()| {
                let schedule = r#type.schedule(interval_ms);
                let schedule = start_ms.map_or(schedule, |start_ms| schedule.starting_at(start_ms));
                Ok(Punctuate { timer: init.schedule(schedule, Punctuate::tick)?, left: times })
            }),
            Process::AddHeader { header } | Process::AddHeaderInPlace { header } => {
                s.process((), move |_, ()| Ok(AddHeader(header.clone())))
            }
            Process::WithTimestamp { ts } => s.process((), move |_, ()| Ok(WithTimestamp(ts))),
            Process::ForwardMetadata {} => s.process((), |_, ()| Ok(ForwardMetadata)),
        })
    }

    fn declared(&self, name: &str) -> Result<Store> {
        let found = self.case.stores.iter().find(|store| store.name() == name);
        found.cloned().map_or_else(|| broken(format!("there is no store `{name}`")), Ok)
    }

    fn add<T: StoreKind>(&mut self, formats: &mut Formats, spec: StoreSpec<T>, options: Options) -> StoreHandle<T> {
        let Options { engine, cache, logging } = options;
        let spec = if cache == Some(true) { spec.caching_enabled() } else { spec };
        let spec = if logging == Some(false) { spec.logging_disabled() } else { spec };
        let spec = if engine == Some(Engine::InMemory) { spec.engine("mem") } else { spec };
        let handle = self.builder.add_store(spec);
        formats.stores.insert(handle.name().to_owned(), (KeyKind::Plain(Kind::Text), Kind::Text));
        handle
    }

    /// The key-value store of a processor that knows no other.
    fn texts(&mut self, formats: &mut Formats, name: &str) -> Result<StoreHandle<KeyValue<Cell, Cell>>> {
        match self.declared(name)? {
            Store::Kv { name, engine, cache, logging, lru_entries: None } => {
                Ok(self.add(formats, StoreSpec::key_value(&name, CELL, CELL), Options { engine, cache, logging }))
            }
            _ => broken(format!("`{name}` is no plain key-value store")),
        }
    }

    fn commands(&mut self, formats: &mut Formats, name: &str, s: Cells) -> Result<Cells> {
        Ok(match self.declared(name)? {
            Store::Kv { name, engine, cache, logging, lru_entries } => {
                let spec = StoreSpec::key_value(&name, TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine, cache, logging });
                key_value::<KeyValue<Text, Text>, PlainText>(s, &store, lru_entries)
            }
            Store::TimestampedKv { name, engine, cache, logging } => {
                let spec = StoreSpec::timestamped_key_value(&name, TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine, cache, logging });
                key_value::<TimestampedKeyValue<Text, Text>, StampedText>(s, &store, None)
            }
            Store::HeadersKv { name, engine, cache, logging } => {
                let spec = StoreSpec::timestamped_key_value_with_headers(&name, TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine, cache, logging });
                key_value::<TimestampedKeyValueWithHeaders<Text, Text>, TextWithHeaders>(s, &store, None)
            }
            Store::VersionedKv { name, history_ms, logging, .. } => {
                let spec = StoreSpec::versioned(&name, Duration::from_millis(history_ms), TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine: None, cache: None, logging });
                run(s, &store, VersionedCommands)
            }
            Store::Window(w) => {
                let (options, retention, size) = window_options(&w);
                let spec = StoreSpec::window(&w.name, retention, size, TEXT, TEXT);
                let spec = if w.retain_duplicates { spec.retain_duplicates() } else { spec };
                window::<Window<Text, Text>, PlainText>(s, &self.add(formats, spec, options))
            }
            Store::TimestampedWindow(w) => {
                let (options, retention, size) = window_options(&w);
                let spec = StoreSpec::timestamped_window(&w.name, retention, size, TEXT, TEXT);
                let spec = if w.retain_duplicates { spec.retain_duplicates() } else { spec };
                window::<TimestampedWindow<Text, Text>, StampedText>(s, &self.add(formats, spec, options))
            }
            Store::HeadersWindow(w) => {
                let (options, retention, size) = window_options(&w);
                let spec = StoreSpec::timestamped_window_with_headers(&w.name, retention, size, TEXT, TEXT);
                let spec = if w.retain_duplicates { spec.retain_duplicates() } else { spec };
                window::<TimestampedWindowWithHeaders<Text, Text>, TextWithHeaders>(
                    s,
                    &self.add(formats, spec, options),
                )
            }
            Store::Session(SessionStore { name, engine, cache, logging, retention_ms }) => {
                let spec = StoreSpec::session(&name, Duration::from_millis(retention_ms), TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine, cache, logging });
                session::<Session<Text, Text>, PlainText>(s, &store)
            }
            Store::HeadersSession(SessionStore { name, engine, cache, logging, retention_ms }) => {
                let spec = StoreSpec::session_with_headers(&name, Duration::from_millis(retention_ms), TEXT, TEXT);
                let store = self.add(formats, spec, Options { engine, cache, logging });
                session::<SessionWithHeaders<Text, Text>, SessionTextWithHeaders>(s, &store)
            }
        })
    }
}

/// What all stores have options for.
struct Options {
    engine: Option<Engine>,
    cache: Option<bool>,
    logging: Option<bool>,
}

fn window_options(w: &WindowStore) -> (Options, Duration, Duration) {
    let options = Options { engine: w.engine, cache: w.cache, logging: w.logging };
    (options, Duration::from_millis(w.retention_ms), Duration::from_millis(w.window_ms))
}

fn run<T: StoreKind, C: Commands>(
    s: Cells,
    store: &StoreHandle<T>,
    commands: impl Fn(millpond_topology::StoreRef<T>) -> C + Send + Sync + 'static,
) -> Cells {
    s.process(store, move |_, store| Ok(Runner(commands(store))))
}

fn key_value<T, C>(s: Cells, store: &StoreHandle<T>, lru_entries: Option<usize>) -> Cells
where
    T: for<'a> StoreKind<View<'a, Writable> = StoreView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    run(s, store, move |store| KeyValueCommands::<T, C>::new(store, lru_entries))
}

fn window<T, C>(s: Cells, store: &StoreHandle<T>) -> Cells
where
    T: for<'a> StoreKind<View<'a, Writable> = WindowView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    run(s, store, |store| WindowCommands::<T, C>(store, PhantomData))
}

fn session<T, C>(s: Cells, store: &StoreHandle<T>) -> Cells
where
    T: for<'a> StoreKind<View<'a, Writable> = SessionView<'a, Text, C>>,
    C: Values<Value: Stored>,
{
    run(s, store, |store| SessionCommands::<T, C>(store, PhantomData))
}
