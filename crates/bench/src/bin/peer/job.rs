//! The topologies, each the same as the Java one of its name.

use millpond_topology::{ByteArray, Consumed, I64, Materialized, Produced, Topology};

use crate::error::Result;

/// The name of the one store.
pub(crate) const STORE: &str = "store";

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Writes each record to another topic.
    Copy,
    /// Counts the records of each key.
    Count,
    /// Keeps the latest value of each key.
    Reduce,
}

impl Job {
    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "copy" => Ok(Self::Copy),
            "count" => Ok(Self::Count),
            "reduce100" => Ok(Self::Reduce),
            other => Err(format!("`job={other}` is none of copy, count, reduce100").into()),
        }
    }

    pub(crate) fn has_store(self) -> bool {
        self != Self::Copy
    }

    pub(crate) fn topology(self, input: &str, output: &str) -> Result<Topology> {
        let mut builder = Topology::builder();
        let stream = builder.stream::<i64, Vec<u8>>(input, Consumed::with(I64, ByteArray));
        match self {
            Self::Copy => stream.to(output, Produced::with(I64, ByteArray)),
            Self::Count => {
                let counts = stream.group_by_key().count(Materialized::named(STORE));
                counts.to_stream().to(output, Produced::with(I64, I64));
            }
            Self::Reduce => {
                let latest = stream.group_by_key().reduce(|_, latest| latest, Materialized::named(STORE));
                latest.to_stream().to(output, Produced::with(I64, ByteArray));
            }
        }
        Ok(builder.build()?)
    }
}
