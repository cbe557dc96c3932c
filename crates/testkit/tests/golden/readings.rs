//! What is right where Kafka Streams deviates and the case does not say what ought to come out: `readings.json`, each with its
//! reason. `docs/differences.md` lists them for users.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::{Contents, Output, RawRecord};

/// A reading of a case.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    group: String,
    case: String,
    #[serde(rename = "reason")]
    _reason: String,
    /// By step: what comes out. An error that the case expects there is none then.
    #[serde(default)]
    pub(crate) steps: BTreeMap<usize, Vec<Output>>,
    /// By store, and by topic: those that are not named are as the case has them.
    pub(crate) stores: Option<BTreeMap<String, Contents>>,
    pub(crate) internal: Option<BTreeMap<String, Vec<RawRecord>>>,
}

pub(crate) fn reading(group: &str, case: &str) -> Option<Reading> {
    let all: Vec<Reading> = serde_json::from_str(include_str!("readings.json")).expect("it is part of these tests");
    all.into_iter().find(|reading| reading.group == group && reading.case == case)
}
