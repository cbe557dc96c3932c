//! The functions that cases name.

use millpond_topology::{Error, Result};

use crate::op::{Fold, KeyFn, Predicate, ValueFn};
use crate::value::{Cell, Kind, Val};

fn field(value: &Cell, at: usize) -> Cell {
    let text = value.as_ref()?.to_string();
    text.split(',').nth(at).filter(|part| !part.is_empty()).map(Val::text)
}

impl Predicate {
    pub(crate) fn holds(&self, key: &Cell, value: &Cell) -> Result<bool> {
        Ok(match self {
            Self::ValueGe(least) => value.as_ref().map(Val::number).transpose()?.is_some_and(|n| n >= *least),
            Self::ValueContains(part) => value.as_ref().is_some_and(|v| v.to_string().contains(part)),
            Self::KeyIs(word) => *key == Some(Val::text(word)),
            Self::ValueNotNull => value.is_some(),
        })
    }
}

impl ValueFn {
    pub(crate) fn apply(&self, key: &Cell, value: Cell) -> Result<Cell> {
        if let Self::WithKey = self {
            let shown = |cell: &Cell| cell.as_ref().map_or("null".into(), Val::to_string);
            return Ok(Some(Val::Text(format!("{}:{}", shown(key), shown(&value)))));
        }
        let Some(value) = value else { return Ok(None) };
        let text = value.to_string();
        Ok(match self {
            Self::Upper => Some(Val::Text(text.to_uppercase())),
            Self::Append(end) => Some(Val::Text(text + end)),
            Self::Length => Some(Val::Long(text.encode_utf16().count() as i64)),
            Self::Parse => Some(Val::Long(text.parse()?)),
            Self::Text | Self::WithKey => Some(Val::Text(text)),
            Self::Field(at) => field(&Some(value), *at),
            Self::NullIf(word) => (value != Val::text(word)).then_some(value),
        })
    }

    /// The kind of what it makes.
    pub(crate) fn kind(&self, of: Kind) -> Kind {
        match self {
            Self::Length | Self::Parse => Kind::Long,
            Self::NullIf(_) => of,
            _ => Kind::Text,
        }
    }
}

impl KeyFn {
    pub(crate) fn apply(&self, key: &Cell, value: &Cell) -> Cell {
        match self {
            Self::Value => value.as_ref().map(|v| Val::Text(v.to_string())),
            Self::Field(at) => field(value, *at),
            Self::Key => key.clone(),
            Self::KeyField(at) => field(key, *at),
            Self::Const(word) => Some(Val::text(word)),
            Self::KeyNull => None,
        }
    }
}

fn text(cell: &Cell) -> String {
    cell.as_ref().map_or(String::new(), Val::to_string)
}

impl Fold {
    /// What an aggregate begins as.
    pub(crate) fn initial(&self) -> Cell {
        match self {
            Self::Concat | Self::Log | Self::ResetOn(_) => Some(Val::text("")),
            Self::Sum => Some(Val::Long(0)),
            Self::Min | Self::Max | Self::Last | Self::NullInitConcat => None,
        }
    }

    /// The kind of the aggregate.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Sum | Self::Min | Self::Max => Kind::Long,
            _ => Kind::Text,
        }
    }

    /// Adds a value to an aggregate. Of a null that a table may have, as of any other, the text is `null`.
    pub(crate) fn add(&self, aggregate: Cell, value: &Cell) -> Result<Cell> {
        let value = value.as_ref().ok_or_else(|| Error::other("an aggregator was given a null"))?;
        Ok(match self {
            Self::Concat | Self::NullInitConcat => Some(Val::Text(text(&aggregate) + &value.to_string())),
            Self::ResetOn(word) if *value == Val::text(word) => None,
            Self::ResetOn(_) => Some(Val::Text(text(&aggregate) + &value.to_string())),
            Self::Log => Some(Val::Text(format!("{}+{value}", text(&aggregate)))),
            Self::Sum => Some(Val::Long(number(&aggregate)?.wrapping_add(value.number()?))),
            Self::Min | Self::Max => Some(Val::Long(self.pick(aggregate.as_ref(), value)?)),
            Self::Last => Some(value.clone()),
        })
    }

    /// Takes a table's old value out of an aggregate.
    pub(crate) fn subtract(&self, aggregate: Cell, value: &Cell) -> Result<Cell> {
        let value = value.as_ref().ok_or_else(|| Error::other("a subtractor was given a null"))?;
        Ok(match self {
            Self::Concat => Some(Val::Text(text(&aggregate).replacen(&value.to_string(), "", 1))),
            Self::Log => Some(Val::Text(format!("{}-{value}", text(&aggregate)))),
            Self::Sum => Some(Val::Long(number(&aggregate)?.wrapping_sub(value.number()?))),
            _ => self.add(aggregate, &Some(value.clone()))?,
        })
    }

    /// The least or the greatest.
    fn pick(&self, one: Option<&Val>, other: &Val) -> Result<i64> {
        let other = other.number()?;
        let Some(one) = one else { return Ok(other) };
        Ok(if let Self::Min = self { one.number()?.min(other) } else { one.number()?.max(other) })
    }

    /// As a reducer: puts two values together.
    pub(crate) fn reduce(&self, kind: Kind, one: Cell, other: Cell) -> Result<Cell> {
        let reduced = match self {
            Self::Log => Some(Val::Text(format!("{}+{}", text(&one), text(&other)))),
            _ => self.add(one, &other)?,
        };
        Ok(of_kind(kind, reduced))
    }

    /// As a table's subtracting reducer.
    pub(crate) fn reduce_back(&self, kind: Kind, one: Cell, other: Cell) -> Result<Cell> {
        let reduced = match self {
            Self::Concat => self.add(one, &other)?,
            _ => self.subtract(one, &other)?,
        };
        Ok(of_kind(kind, reduced))
    }

    /// As a merger of two sessions' aggregates.
    pub(crate) fn merge(&self, one: Cell, other: Cell) -> Result<Cell> {
        match (one, other) {
            (None, other) => Ok(other),
            (one, None) => Ok(one),
            (Some(one), Some(other)) => self.add(Some(one), &Some(other)),
        }
    }
}

fn number(cell: &Cell) -> Result<i64> {
    cell.as_ref().map_or(Ok(0), Val::number)
}

/// A reducer's result is of the values' kind, whatever it calculates with.
fn of_kind(kind: Kind, cell: Cell) -> Cell {
    match (kind, cell) {
        (Kind::Text, Some(Val::Long(n))) => Some(Val::Text(n.to_string())),
        (_, cell) => cell,
    }
}
