//! Builds topologies from the `ops` of golden cases; `None` for a case that needs something this crate does not have yet.

use std::collections::HashMap;
use std::sync::Arc;

use millpond_topology::*;
use serde_json::Value as Json;

/// A value of a case: the serde says which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Val {
    Text(String),
    Long(i64),
}

pub(crate) type Key = Option<Val>;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Text,
    Long,
}

/// Text or a 64-bit integer, as the case says.
#[derive(Clone, Copy)]
pub(crate) struct Dynamic(pub(crate) Kind);

impl Serde<Val> for Dynamic {
    fn encode(&self, value: &Val, out: &mut Vec<u8>) -> Result {
        match (self.0, value) {
            (Kind::Text, Val::Text(text)) => Utf8.encode(text, out),
            (Kind::Long, Val::Long(n)) => I64.encode(n, out),
            _ => Err(Error::other("a value of another type")),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Val> {
        Ok(match self.0 {
            Kind::Text => Val::Text(Utf8.decode(bytes)?),
            Kind::Long => Val::Long(I64.decode(bytes)?),
        })
    }

    fn identity(&self) -> SerdeId {
        match self.0 {
            Kind::Text => SerdeId::of::<Utf8>(),
            Kind::Long => SerdeId::of::<I64>(),
        }
    }

    fn ordered(&self) -> bool {
        self.0 == Kind::Text
    }
}

/// Something that an op left behind, with the kinds of its key and value.
enum Made {
    Stream(Stream<Key, Key>, Kind, Kind),
    Grouped(GroupedStream<Key, Key>, Kind, Kind),
    /// A table from a topic.
    Rows(Table<Key, Val, Deletes>, Kind, Kind),
    Counts(Table<Key, i64, Upserts>, Kind),
    CountStream(Stream<Key, i64>, Kind),
    /// An aggregation; its values are optional, so that it can give null.
    Sums(Table<Key, Key, Upserts>, Kind, Kind),
    Filtered(Table<Key, Key, Deletes>, Kind, Kind),
    Regrouped(GroupedTable<Key, Key>, Kind, Kind),
    FilteredStream(Stream<Key, Option<Key>>, Kind, Kind),
}

impl Clone for Made {
    fn clone(&self) -> Self {
        match self {
            Self::Stream(s, k, v) => Self::Stream(s.clone(), *k, *v),
            Self::Grouped(s, k, v) => Self::Grouped(s.clone(), *k, *v),
            Self::Rows(s, k, v) => Self::Rows(s.clone(), *k, *v),
            Self::Counts(s, k) => Self::Counts(s.clone(), *k),
            Self::CountStream(s, k) => Self::CountStream(s.clone(), *k),
            Self::Sums(s, k, v) => Self::Sums(s.clone(), *k, *v),
            Self::Filtered(s, k, v) => Self::Filtered(s.clone(), *k, *v),
            Self::Regrouped(s, k, v) => Self::Regrouped(s.clone(), *k, *v),
            Self::FilteredStream(s, k, v) => Self::FilteredStream(s.clone(), *k, *v),
        }
    }
}

/// What the sinks write, for the comparison of outputs.
pub(crate) struct Case {
    pub(crate) topology: Topology,
    /// The kinds of keys and values by topic, of sources and sinks.
    pub(crate) kinds: HashMap<String, (Kind, Kind)>,
}

struct Interpreter<'a> {
    builder: Builder,
    made: HashMap<String, Made>,
    kinds: HashMap<String, (Kind, Kind)>,
    stores: &'a Json,
}

pub(crate) fn build(topology: &Json) -> Option<Case> {
    let config = &topology["config"];
    if config.as_object().is_some_and(|c| c.keys().any(|k| k != "cache_bytes")) {
        return None;
    }
    let mut it = Interpreter {
        builder: Topology::builder(),
        made: HashMap::new(),
        kinds: HashMap::new(),
        stores: &topology["stores"],
    };
    let ops = topology["ops"].as_array()?;
    let mut last = String::new();
    for (at, op) in ops.iter().enumerate() {
        let from = op["from"].as_str().map_or(last.clone(), str::to_owned);
        // Only what is used again is cloned, so that `Clone` says something.
        let again = ops[at + 1..].iter().any(|later| later["from"] == from.as_str() || later["with"] == from.as_str());
        let input = match op["op"].as_str()? {
            "stream" | "table" => None,
            _ if again => it.made.get(&from).cloned(),
            _ => it.made.remove(&from),
        };
        last = op["id"].as_str().map_or(format!("#{at}"), str::to_owned);
        let made = it.op(op, input, &last)?;
        if let Some(made) = made {
            it.made.insert(last.clone(), made);
        }
    }
    it.made.clear();
    let topology = it.builder.build().unwrap();
    Some(Case { topology, kinds: it.kinds })
}

fn nullable(kind: Kind) -> Nullable<Dynamic> {
    Nullable(Dynamic(kind))
}

fn materialized<V: 'static>(op: &Json, key: Kind, value: impl Serde<V>) -> Option<Materialized<Key, V>> {
    if op["window"].is_object() || op["history_ms"].is_number() || op["retention_ms"].is_number() {
        return None;
    }
    let m = op["store"].as_str().map_or_else(Materialized::default, Materialized::named);
    let m = m.serdes(nullable(key), value);
    let m = if op["logging"] == false { m.logging_disabled() } else { m };
    let m = if op["cache"] == false { m.caching_disabled() } else { m };
    let m = if op["engine"] == "in_memory" { m.engine("mem") } else { m };
    Some(match op["topic_config"].as_object() {
        Some(configs) => m.logging(configs.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()))),
        None => m,
    })
}

impl Interpreter<'_> {
    /// Outer `None`: cannot be built yet. Inner `None`: nothing is left behind.
    fn op(&mut self, op: &Json, input: Option<Made>, id: &str) -> Option<Option<Made>> {
        let name = op["name"].as_str();
        Some(Some(match (op["op"].as_str()?, input) {
            ("stream", _) => {
                let (k, v) = self.source(op);
                Made::Stream(self.builder.stream(op["topic"].as_str()?, Consumed::with(nullable(k), nullable(v))), k, v)
            }
            ("table", _) => {
                let (k, v) = self.source(op);
                let consumed = Consumed::with(nullable(k), Dynamic(v));
                let m = materialized(op, k, Dynamic(v))?;
                Made::Rows(self.builder.table_materialized(op["topic"].as_str()?, consumed, m), k, v)
            }
            ("merge", Some(Made::Stream(s, k, v))) => {
                let Some(Made::Stream(with, ..)) = self.made.remove(op["with"].as_str()?) else { return None };
                Made::Stream(named(s, name).merge(with), k, v)
            }
            ("branch", Some(Made::Stream(s, k, v))) => {
                return self.branch(op, named(s, name), (k, v), id).map(|()| None);
            }
            ("to", Some(made)) => return self.to(op, made).map(|()| None),
            ("process", Some(Made::Stream(s, k, v))) => self.process(op, named(s, name), (k, v))?,
            (verb, Some(Made::Stream(s, k, v))) => stream_op(op, verb, s, (k, v))?,
            (verb, Some(Made::Grouped(s, k, v))) => grouped_op(op, verb, s, (k, v))?,
            ("to_stream", Some(made)) => made.into_stream(),
            ("group_by", Some(Made::Rows(t, _, v))) => regroup(op, t, Some, v)?,
            ("group_by", Some(Made::Sums(t, _, v))) => regroup(op, t, |v| v, v)?,
            ("group_by", Some(Made::Counts(t, _))) => regroup(op, t, |n| Some(Val::Long(n)), Kind::Long)?,
            (verb, Some(Made::Regrouped(t, k, v))) => regrouped_op(op, verb, t, (k, v))?,
            (verb, Some(Made::Rows(t, k, v))) => rows_op(op, verb, t, (k, v))?,
            (verb, Some(Made::Sums(t, k, v))) => sums_op(op, verb, t, (k, v))?,
            _ => return None,
        }))
    }

    fn source(&mut self, op: &Json) -> (Kind, Kind) {
        let kind = |field: &str| if op[field] == "long" { Kind::Long } else { Kind::Text };
        let kinds = (kind("key"), kind("value"));
        self.kinds.insert(op["topic"].as_str().unwrap().to_owned(), kinds);
        kinds
    }

    fn to(&mut self, op: &Json, made: Made) -> Option<()> {
        let topic = op["topic"].as_str()?;
        let kinds = match made.into_stream() {
            Made::Stream(s, k, v) => {
                s.to(topic, Produced::with(nullable(k), nullable(v)));
                (k, v)
            }
            Made::CountStream(s, k) => {
                s.to(topic, Produced::with(nullable(k), I64));
                (k, Kind::Long)
            }
            Made::FilteredStream(s, k, v) => {
                s.to(topic, Produced::with(nullable(k), Nullable(nullable(v))));
                (k, v)
            }
            _ => return None,
        };
        self.kinds.insert(topic.to_owned(), kinds);
        Some(())
    }

    fn branch(&mut self, op: &Json, s: Stream<Key, Key>, (k, v): (Kind, Kind), id: &str) -> Option<()> {
        let mut split = s.split();
        for (i, f) in op["fns"].as_array()?.iter().enumerate() {
            let stream = split.named(format!("-{i}")).branch(predicate(f)?);
            self.made.insert(format!("{id}-{i}"), Made::Stream(stream, k, v));
        }
        if op["default"] != false {
            let stream = split.named("-rest").rest();
            self.made.insert(format!("{id}-rest"), Made::Stream(stream, k, v));
        }
        Some(())
    }

    fn process(&mut self, op: &Json, s: Stream<Key, Key>, (k, v): (Kind, Kind)) -> Option<Made> {
        let every = op["interval_ms"].as_i64();
        let by = match op["type"].as_str() {
            Some("wall_clock") => Schedule::wall_clock_ms as fn(i64) -> Schedule,
            _ => Schedule::stream_time_ms,
        };
        if op["start_ms"].is_number() {
            return None;
        }
        let stream = match op["processor"].as_str()? {
            "count_by_key" => {
                let store = self.store(op, k)?;
                s.process(&store, |_, counts| Ok(CountByKey { counts }))
            }
            "hold_until_punctuation" => {
                let (store, every) = (self.store(op, k)?, every?);
                s.process(&store, move |init, held| {
                    init.schedule(by(every), Hold::release)?;
                    Ok(Hold { held })
                })
            }
            "punctuate" => {
                let (every, times) = (every?, op["times"].as_u64());
                s.process((), move |init, ()| {
                    let timer = init.schedule(by(every), Punctuate::tick)?;
                    Ok(Punctuate { timer, left: times })
                })
            }
            _ => return None,
        };
        Some(Made::Stream(stream, k, v))
    }

    /// The one store that the op names.
    fn store(&mut self, op: &Json, key: Kind) -> Option<StoreHandle<KeyValue<Key, Val>>> {
        let name = op["stores"].as_array()?.first()?.as_str()?;
        let json = self.stores.as_array()?.iter().find(|s| s["name"] == name)?;
        if json["kind"] != "kv" {
            return None;
        }
        let spec = StoreSpec::key_value(name, nullable(key), Dynamic(Kind::Text));
        let spec = if json["logging"] == false { spec.logging_disabled() } else { spec };
        Some(self.builder.add_store(spec))
    }
}

impl Made {
    fn into_stream(self) -> Self {
        match self {
            Self::Rows(t, k, v) => Self::Stream(t.to_stream(), k, v),
            Self::Counts(t, k) => Self::CountStream(t.to_stream(), k),
            Self::Sums(t, k, v) => Self::Stream(t.to_stream(), k, v),
            Self::Filtered(t, k, v) => Self::FilteredStream(t.to_stream(), k, v),
            other => other,
        }
    }
}

fn named<K: 'static, V: 'static>(s: Stream<K, V>, name: Option<&str>) -> Stream<K, V> {
    match name {
        Some(name) => s.named(name),
        None => s,
    }
}

fn stream_op(op: &Json, verb: &str, s: Stream<Key, Key>, (k, v): (Kind, Kind)) -> Option<Made> {
    let name = op["name"].as_str();
    Some(match verb {
        "filter" => Made::Stream(named(s, name).filter(predicate(&op["fn"])?), k, v),
        "filter_not" => Made::Stream(named(s, name).filter_not(predicate(&op["fn"])?), k, v),
        "map_values" => {
            let f = value_function(&op["fn"])?;
            let f = move |value: Key| value.and_then(&f);
            let kind = if op["fn"] == "length" || op["fn"] == "parse" { Kind::Long } else { v };
            Made::Stream(named(s, name).map_values(f), k, kind)
        }
        "select_key" => Made::Stream(named(s, name).select_key(key_function(&op["fn"])?), Kind::Text, v),
        "map" => {
            let (key, value) = (key_function(&op["fn"])?, key_function(&op["value_fn"])?);
            Made::Stream(named(s, name).map(move |k, v| (key(&k, &v), value(&k, &v))), Kind::Text, v)
        }
        "split_words" => {
            let words = |v: Key| -> Vec<Key> {
                let Some(Val::Text(text)) = v else { return vec![] };
                text.split(' ').map(|w| Some(Val::Text(w.to_owned()))).collect()
            };
            Made::Stream(named(s, name).flat_map_values(words), k, v)
        }
        "repartition" => {
            let options = name.map_or_else(Repartitioned::default, Repartitioned::named);
            let options = options.key(nullable(k)).value(nullable(v));
            let options = match op["partitions"].as_i64() {
                Some(n) => options.partitions(i32::try_from(n).unwrap()),
                None => options,
            };
            Made::Stream(s.repartition(options), k, v)
        }
        "group_by_key" => Made::Grouped(s.group_by_key_with(grouped(name, k, v)), k, v),
        "group_by" => Made::Grouped(s.group_by(key_function(&op["fn"])?, grouped(name, Kind::Text, v)), Kind::Text, v),
        "to_table" => Made::Sums(named(s, name).to_table(materialized(op, k, nullable(v))?), k, v),
        _ => return None,
    })
}

fn grouped(name: Option<&str>, key: Kind, value: Kind) -> Grouped<Key, Key> {
    name.map_or_else(Grouped::default, Grouped::named).key(nullable(key)).value(nullable(value))
}

fn grouped_op(op: &Json, verb: &str, s: GroupedStream<Key, Key>, (k, v): (Kind, Kind)) -> Option<Made> {
    Some(match verb {
        "count" => Made::Counts(s.count(materialized(op, k, I64)?), k),
        "reduce" => {
            let f = reducer(&op["fn"])?;
            Made::Sums(s.reduce(move |a, b| Some(f(a?, b?)), materialized(op, k, nullable(v))?), k, v)
        }
        "aggregate" => {
            let (init, f, kind) = aggregator(&op["fn"])?;
            let m = materialized(op, k, nullable(kind))?;
            Made::Sums(s.aggregate(move || init.clone(), move |a, _, v| f(a, v.clone()?), m), k, kind)
        }
        _ => return None,
    })
}

fn regroup<V: 'static, D: TableKind>(op: &Json, t: Table<Key, V, D>, value: fn(V) -> Key, kind: Kind) -> Option<Made> {
    let key = key_function(&op["fn"])?;
    let other = key_function(&op["value_fn"]);
    let kind = if other.is_some() { Kind::Text } else { kind };
    let select = move |k: &Key, v: V| {
        let v = value(v);
        (key(k, &v), other.as_ref().map_or_else(|| v.clone(), |other| other(k, &v)))
    };
    Some(Made::Regrouped(t.group_by(select, grouped(op["name"].as_str(), Kind::Text, kind)), Kind::Text, kind))
}

fn regrouped_op(op: &Json, verb: &str, t: GroupedTable<Key, Key>, (k, v): (Kind, Kind)) -> Option<Made> {
    Some(match verb {
        "count" => Made::Counts(t.count(materialized(op, k, I64)?), k),
        "reduce" => {
            let (add, subtract) = (reducer(&op["fn"])?, unreducer(&op["fn"])?);
            let m = materialized(op, k, nullable(v))?;
            Made::Sums(t.reduce(move |a, b| Some(add(a?, b?)), move |a, b| Some(subtract(a?, b?)), m), k, v)
        }
        "aggregate" => {
            let ((init, add, kind), subtract) = (aggregator(&op["fn"])?, subtractor(&op["fn"])?);
            let m = materialized(op, k, nullable(kind))?;
            let add = move |a, _: &Key, v: &Key| add(a, v.clone()?);
            let subtract = move |a: Key, _: &Key, v: &Key| Some(subtract(a?, v.clone()?));
            Made::Sums(t.aggregate(move || init.clone(), add, subtract, m), k, kind)
        }
        _ => return None,
    })
}

fn unreducer(json: &Json) -> Option<fn(Val, Val) -> Val> {
    Some(match json.as_str()? {
        "log" => |a, b| Val::Text(format!("{}-{}", text(&a), text(&b))),
        "sum" => |a, b| Val::Long(number(&a).wrapping_sub(number(&b))),
        "last" => |_, b| b,
        _ => return None,
    })
}

fn subtractor(json: &Json) -> Option<fn(Val, Val) -> Val> {
    Some(match json.as_str()? {
        "concat" => |a, b| Val::Text(text(&a).replacen(&text(&b), "", 1)),
        "log" => |a, b| Val::Text(format!("{}-{}", text(&a), text(&b))),
        "sum" => |a, b| Val::Long(number(&a).wrapping_sub(number(&b))),
        _ => return None,
    })
}

fn rows_op(op: &Json, verb: &str, t: Table<Key, Val, Deletes>, (k, v): (Kind, Kind)) -> Option<Made> {
    let m = materialized(op, k, Dynamic(v))?;
    Some(match verb {
        "filter" | "filter_not" => {
            let (keep, f) = (verb == "filter", predicate(&op["fn"])?);
            Made::Rows(t.filter_materialized(move |k, v| f(k, &Some(v.clone())) == keep, m), k, v)
        }
        "map_values" => {
            let f = value_function(&op["fn"]).filter(|_| !op["fn"]["null_if"].is_string())?;
            Made::Rows(t.map_values_materialized(move |v| f(v).unwrap(), m), k, v)
        }
        _ => return None,
    })
}

fn sums_op(op: &Json, verb: &str, t: Table<Key, Key, Upserts>, (k, v): (Kind, Kind)) -> Option<Made> {
    let f = predicate(&op["fn"])?;
    let m = materialized(op, k, nullable(v))?;
    (verb == "filter").then(|| Made::Filtered(t.filter_materialized(f, m), k, v))
}

type Predicate = Arc<dyn Fn(&Key, &Key) -> bool + Send + Sync>;

fn text(value: &Val) -> String {
    match value {
        Val::Text(text) => text.clone(),
        Val::Long(n) => n.to_string(),
    }
}

fn number(value: &Val) -> i64 {
    match value {
        Val::Text(text) => text.parse().unwrap(),
        Val::Long(n) => *n,
    }
}

/// A function's name and its argument.
fn call(json: &Json) -> Option<(&str, &Json)> {
    match json.as_object() {
        Some(object) => object.iter().next().map(|(name, arg)| (name.as_str(), arg)),
        None => json.as_str().map(|name| (name, &Json::Null)),
    }
}

fn predicate(json: &Json) -> Option<impl Fn(&Key, &Key) -> bool + Send + Sync + Clone + 'static> {
    let (name, arg) = call(json)?;
    let word = arg.as_str().unwrap_or_default().to_owned();
    let f: Predicate = match name {
        "value_not_null" => Arc::new(|_, v| v.is_some()),
        "value_ge" => {
            let least = arg.as_i64()?;
            Arc::new(move |_, v| v.as_ref().is_some_and(|v| number(v) >= least))
        }
        "value_contains" => Arc::new(move |_, v| v.as_ref().is_some_and(|v| text(v).contains(&word))),
        "key_is" => Arc::new(move |k, _| k.as_ref().is_some_and(|k| text(k) == word)),
        _ => return None,
    };
    Some(move |k: &Key, v: &Key| f(k, v))
}

fn value_function(json: &Json) -> Option<impl Fn(Val) -> Key + Send + Sync + 'static> {
    let (name, arg) = call(json)?;
    let arg = arg.as_str().unwrap_or_default().to_owned();
    let f: fn(&str, String) -> Key = match name {
        "upper" => |_, v| Some(Val::Text(v.to_uppercase())),
        "append" => |arg, v| Some(Val::Text(v + arg)),
        "null_if" => |arg, v| (v != arg).then_some(Val::Text(v)),
        _ => return None,
    };
    Some(move |v: Val| f(&arg, text(&v)))
}

fn field(value: &Key, at: usize) -> Key {
    let value = text(value.as_ref()?);
    value.split(',').nth(at).filter(|part| !part.is_empty()).map(|part| Val::Text(part.to_owned()))
}

type KeyFunction = Arc<dyn Fn(&Key, &Key) -> Key + Send + Sync>;

fn key_function(json: &Json) -> Option<impl Fn(&Key, &Key) -> Key + Send + Sync + 'static> {
    let (name, arg) = call(json)?;
    let f: KeyFunction = match name {
        "value" => Arc::new(|_, v| v.clone()),
        "key" => Arc::new(|k, _| k.clone()),
        "key_null" => Arc::new(|_, _| None),
        "field" => {
            let at = usize::try_from(arg.as_u64()?).unwrap();
            Arc::new(move |_, v| field(v, at))
        }
        "const" => {
            let word = Val::Text(arg.as_str()?.to_owned());
            Arc::new(move |_, _| Some(word.clone()))
        }
        _ => return None,
    };
    Some(move |k: &Key, v: &Key| f(k, v))
}

fn reducer(json: &Json) -> Option<fn(Val, Val) -> Val> {
    Some(match json.as_str()? {
        "concat" => |a, b| Val::Text(text(&a) + &text(&b)),
        "log" => |a, b| Val::Text(format!("{}+{}", text(&a), text(&b))),
        "sum" => |a, b| Val::Long(number(&a).wrapping_add(number(&b))),
        "last" => |_, b| b,
        _ => return None,
    })
}

type Aggregator = Arc<dyn Fn(Key, Val) -> Key + Send + Sync>;

/// The initial value, the aggregator and the kind of its result.
fn aggregator(json: &Json) -> Option<(Key, Aggregator, Kind)> {
    let (name, arg) = call(json)?;
    let empty = Some(Val::Text(String::new()));
    let concat = |a: Key, v: &Val| Some(Val::Text(a.map_or(String::new(), |a| text(&a)) + &text(v)));
    Some(match name {
        "concat" => (empty, Arc::new(move |a, v| concat(a, &v)), Kind::Text),
        "null_init_concat" => (None, Arc::new(move |a, v| concat(a, &v)), Kind::Text),
        "log" => (empty, Arc::new(move |a, v| concat(a, &Val::Text(format!("+{}", text(&v))))), Kind::Text),
        "sum" => {
            let sum = |a: Key, v: Val| Some(Val::Long(a.map_or(0, |a| number(&a)).wrapping_add(number(&v))));
            (Some(Val::Long(0)), Arc::new(sum), Kind::Long)
        }
        "last" => (empty, Arc::new(|_, v| Some(Val::Text(text(&v)))), Kind::Text),
        "min" => {
            let min = |a: Key, v: Val| Some(Val::Long(a.map_or(number(&v), |a| number(&a).min(number(&v)))));
            (None, Arc::new(min), Kind::Long)
        }
        "max" => {
            let max = |a: Key, v: Val| Some(Val::Long(a.map_or(number(&v), |a| number(&a).max(number(&v)))));
            (None, Arc::new(max), Kind::Long)
        }
        "reset_on" => {
            let word = arg.as_str()?.to_owned();
            let reset = move |a, v: Val| if text(&v) == word { None } else { concat(a, &v) };
            (empty, Arc::new(reset), Kind::Text)
        }
        _ => return None,
    })
}

struct CountByKey {
    counts: StoreRef<KeyValue<Key, Val>>,
}

impl Processor for CountByKey {
    type In = Record<Key, Key>;
    type Out = Record<Key, Key>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        let mut counts = cx.store(&self.counts)?;
        let n = counts.get(&r.key)?.map_or(0, |n| number(&n)) + 1;
        let n = Val::Text(n.to_string());
        counts.put(&r.key, &n)?;
        cx.forward(r.with_value(Some(n)))
    }
}

struct Hold {
    held: StoreRef<KeyValue<Key, Val>>,
}

impl Hold {
    fn release(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        let mut rows = cx.store(&self.held)?.all();
        while let Some((key, value)) = rows.next(cx)? {
            cx.store(&self.held)?.delete(&key)?;
            cx.forward(Record::new(key, Some(value), now))?;
        }
        Ok(())
    }
}

impl Processor for Hold {
    type In = Record<Key, Key>;
    type Out = Record<Key, Key>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.store(&self.held)?.put(&r.key, &r.value.unwrap())
    }
}

struct Punctuate {
    timer: Timer,
    left: Option<u64>,
}

impl Punctuate {
    fn tick(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                cx.cancel(self.timer);
            }
        }
        let word = |text: &str| Some(Val::Text(text.to_owned()));
        cx.forward(Record::new(word("punctuate"), word(&now.to_string()), now))
    }
}

impl Processor for Punctuate {
    type In = Record<Key, Key>;
    type Out = Record<Key, Key>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.forward(r)
    }
}
