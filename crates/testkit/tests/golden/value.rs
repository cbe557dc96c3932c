//! Values of cases: text or a 64-bit integer, as their serdes say, and what the DSL's types make of them.

use std::fmt;

use millpond_topology::{
    Error, I64, Nullable, Result, Serde, SerdeId, SessionWindowed, Suppressed, Table, TableKind, TimeWindowed,
    UntilWindowCloses, Upserts, Utf8, Windowed,
};
use serde::Deserialize;

/// A value.
#[derive(Clone, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(untagged)]
pub(crate) enum Val {
    Text(String),
    Long(i64),
}

/// A value or null.
pub(crate) type Cell = Option<Val>;

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Long(n) => n.fmt(f),
        }
    }
}

impl fmt::Debug for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => fmt::Debug::fmt(text, f),
            Self::Long(n) => n.fmt(f),
        }
    }
}

impl Val {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number, or a text that is one.
    pub(crate) fn number(&self) -> Result<i64> {
        match self {
            Self::Text(text) => Ok(text.parse()?),
            Self::Long(n) => Ok(*n),
        }
    }
}

/// Which serde a value goes through.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub(crate) enum Kind {
    #[default]
    #[serde(rename = "string")]
    Text,
    #[serde(rename = "long")]
    Long,
}

/// The serde of a kind.
#[derive(Clone, Copy)]
pub(crate) struct Dynamic(pub(crate) Kind);

impl Serde<Val> for Dynamic {
    fn encode(&self, value: &Val, out: &mut Vec<u8>) -> Result {
        match (self.0, value) {
            (Kind::Text, Val::Text(text)) => Utf8.encode(text, out),
            (Kind::Long, Val::Long(n)) => I64.encode(n, out),
            _ => Err(Error::other("a value of another kind")),
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

pub(crate) fn nullable(kind: Kind) -> Nullable<Dynamic> {
    Nullable(Dynamic(kind))
}

/// What keys look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum KeyKind {
    Plain(Kind),
    /// In windows of a size.
    Time(Kind, i64),
    Session(Kind),
}

impl KeyKind {
    pub(crate) fn inner(self) -> Kind {
        match self {
            Self::Plain(kind) | Self::Time(kind, _) | Self::Session(kind) => kind,
        }
    }
}

/// The serde of windowed keys.
#[derive(Clone, Copy)]
pub(crate) struct WindowedSerde(KeyKind);

impl Serde<Windowed<Cell>> for WindowedSerde {
    fn encode(&self, key: &Windowed<Cell>, out: &mut Vec<u8>) -> Result {
        match self.0 {
            KeyKind::Time(kind, size) => TimeWindowed::new(nullable(kind), size).encode(key, out),
            KeyKind::Session(kind) => SessionWindowed(nullable(kind)).encode(key, out),
            KeyKind::Plain(_) => Err(Error::other("a key without a window")),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Windowed<Cell>> {
        match self.0 {
            KeyKind::Time(kind, size) => TimeWindowed::new(nullable(kind), size).decode(bytes),
            KeyKind::Session(kind) => SessionWindowed(nullable(kind)).decode(bytes),
            KeyKind::Plain(_) => Err(Error::other("a key without a window")),
        }
    }
}

/// A key as a case writes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(untagged)]
pub(crate) enum Key {
    Plain(Cell),
    Windowed(WindowedKey),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowedKey {
    pub(crate) key: Cell,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Default for Key {
    fn default() -> Self {
        Self::Plain(None)
    }
}

impl Key {
    /// Reads a topic's key.
    pub(crate) fn read(kind: KeyKind, bytes: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = bytes else { return Ok(Self::Plain(None)) };
        Ok(match kind {
            KeyKind::Plain(kind) => Self::Plain(nullable(kind).decode(bytes)?),
            _ => {
                let Windowed { key, start, end } = WindowedSerde(kind).decode(bytes)?;
                Self::Windowed(WindowedKey { key, start, end })
            }
        })
    }

    /// The key without its window.
    pub(crate) fn inner(&self) -> &Cell {
        match self {
            Self::Plain(key) | Self::Windowed(WindowedKey { key, .. }) => key,
        }
    }
}

/// What tables have as keys.
pub(crate) trait TableKey: Clone + Send + Sync + 'static {
    type Serde: Serde<Self>;

    fn serde(kind: KeyKind) -> Self::Serde;

    fn inner(&self) -> &Cell;

    /// The final results of windows; `None`: there are none.
    fn final_results<V: 'static, D: TableKind>(
        table: Table<Self, V, D>,
        suppressed: Suppressed<UntilWindowCloses>,
    ) -> Option<Table<Self, V, Upserts>>;
}

impl TableKey for Cell {
    type Serde = Nullable<Dynamic>;

    fn serde(kind: KeyKind) -> Self::Serde {
        nullable(kind.inner())
    }

    fn inner(&self) -> &Cell {
        self
    }

    fn final_results<V: 'static, D: TableKind>(
        _: Table<Self, V, D>,
        _: Suppressed<UntilWindowCloses>,
    ) -> Option<Table<Self, V, Upserts>> {
        None
    }
}

impl TableKey for Windowed<Cell> {
    type Serde = WindowedSerde;

    fn serde(kind: KeyKind) -> Self::Serde {
        WindowedSerde(kind)
    }

    fn inner(&self) -> &Cell {
        &self.key
    }

    fn final_results<V: 'static, D: TableKind>(
        table: Table<Self, V, D>,
        suppressed: Suppressed<UntilWindowCloses>,
    ) -> Option<Table<Self, V, Upserts>> {
        Some(table.suppress(suppressed))
    }
}

/// What tables and their updates have as values: those of a count are numbers, all others are values that may be null.
pub(crate) trait TableValue: Clone + Send + Sync + 'static {
    type Serde: Serde<Self> + Clone;

    fn serde(kind: Kind) -> Self::Serde;

    fn cell(&self) -> Cell;
}

impl TableValue for Val {
    type Serde = Dynamic;

    fn serde(kind: Kind) -> Dynamic {
        Dynamic(kind)
    }

    fn cell(&self) -> Cell {
        Some(self.clone())
    }
}

impl<V: TableValue> TableValue for Option<V> {
    type Serde = Nullable<V::Serde>;

    fn serde(kind: Kind) -> Self::Serde {
        Nullable(V::serde(kind))
    }

    fn cell(&self) -> Cell {
        self.as_ref().and_then(V::cell)
    }
}

impl TableValue for i64 {
    type Serde = I64;

    fn serde(_: Kind) -> I64 {
        I64
    }

    fn cell(&self) -> Cell {
        Some(Val::Long(*self))
    }
}
