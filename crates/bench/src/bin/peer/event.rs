//! What the program tells: one line of JSON per event.

use std::io::Write;

use millpond_broker_api::{Clock, SystemClock};
use serde_json::{Map, Value};

use crate::error::Result;

/// Fields of an event.
pub(crate) type Fields = Map<String, Value>;

/// Where events go.
pub(crate) struct Events<'a> {
    out: Box<dyn Write + 'a>,
    clock: SystemClock,
}

impl<'a> Events<'a> {
    pub(crate) fn to(out: impl Write + 'a) -> Self {
        Self { out: Box::new(out), clock: SystemClock::new() }
    }

    /// Writes an event with the time of day, which is how events of two processes are compared.
    pub(crate) fn tell(&mut self, event: &str, fields: Fields) -> Result {
        let mut line = Fields::new();
        line.insert("event".to_owned(), event.into());
        line.insert("ms".to_owned(), self.clock.wall_ms().into());
        line.extend(fields);
        writeln!(self.out, "{}", Value::Object(line))?;
        Ok(self.out.flush()?)
    }
}

/// A number with three decimals; null if it is none, such as a quotient by zero.
pub(crate) fn rounded(number: f64) -> Value {
    Value::from((number * 1e3).round() / 1e3)
}
