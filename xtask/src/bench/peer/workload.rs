//! The workloads: who runs what against whom, as data.

use std::fmt;

/// What is run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Workload {
    /// Without state: each record goes to another topic.
    Copy,
    /// Counts per key.
    Count,
    /// Reads a changelog into an empty state directory.
    Restore,
    /// Is killed in the middle, and starts again at once.
    Crash,
}

impl Workload {
    pub(crate) const ALL: [Self; 4] = [Self::Copy, Self::Count, Self::Restore, Self::Crash];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Count => "count",
            Self::Restore => "restore",
            Self::Crash => "crash",
        }
    }

    /// The application's topology, by the name that both programs know.
    pub(super) fn job(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Count => "count",
            Self::Restore | Self::Crash => "reduce100",
        }
    }
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Scale {
    pub(super) records: u64,
    pub(super) keys: u64,
}

/// Who runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Millpond,
    /// Kafka Streams.
    Peer,
    /// Millpond's clients in a loop of this mode, without an application.
    Raw {
        mode: &'static str,
    },
}

/// One of those that are compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Contender {
    /// Its name in reports, the same in all groups.
    pub(super) name: &'static str,
    pub(super) side: Side,
    /// `statestore.cache.max.bytes`; `None`: what it has by default.
    pub(super) cache: Option<u64>,
}

/// Kafka Streams' default for `statestore.cache.max.bytes`.
const PEER_CACHE: u64 = 10_485_760;

pub(super) const MILLPOND: &str = "Millpond";
pub(super) const MILLPOND_SMALL: &str = "Millpond, cache 10 MB";
pub(super) const PEER: &str = "Kafka Streams";
pub(super) const PEER_UNCACHED: &str = "Kafka Streams, cache 0";
pub(super) const RAW: &str = "raw loop";
pub(super) const RAW_CONSUME: &str = "raw loop, consume only";

const fn contender(name: &'static str, side: Side, cache: Option<u64>) -> Contender {
    Contender { name, side, cache }
}

/// What is measured in turns and compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Group {
    pub(super) workload: Workload,
    pub(super) distribution: &'static str,
    pub(super) guarantee: &'static str,
    pub(super) contenders: Vec<Contender>,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.workload.name(), self.distribution, self.guarantee)
    }
}

/// Both guarantees, by the names that both programs know.
const GUARANTEES: [&str; 2] = ["alos", "eos"];

/// All groups of these workloads, of all if none is named.
pub(super) fn groups(only: &[Workload]) -> Vec<Group> {
    let wanted = Workload::ALL.into_iter().filter(|workload| only.is_empty() || only.contains(workload));
    wanted.flat_map(groups_of).collect()
}

fn groups_of(workload: Workload) -> Vec<Group> {
    let distributions: &[&str] = if workload == Workload::Count { &["uniform", "zipf"] } else { &["uniform"] };
    let group = |distribution, guarantee| Group {
        workload,
        distribution,
        guarantee,
        contenders: contenders(workload, guarantee),
    };
    distributions.iter().flat_map(|distribution| GUARANTEES.map(|guarantee| group(*distribution, guarantee))).collect()
}

fn contenders(workload: Workload, guarantee: &str) -> Vec<Contender> {
    let mut contenders = vec![contender(MILLPOND, Side::Millpond, None), contender(PEER, Side::Peer, None)];
    match workload {
        Workload::Copy if guarantee == "eos" => contenders.push(contender(RAW, Side::Raw { mode: "copy-eos" }, None)),
        Workload::Copy => {
            contenders.push(contender(RAW, Side::Raw { mode: "copy" }, None));
            contenders.push(contender(RAW_CONSUME, Side::Raw { mode: "consume" }, None));
        }
        Workload::Count => {
            contenders.push(contender(MILLPOND_SMALL, Side::Millpond, Some(PEER_CACHE)));
            contenders.push(contender(PEER_UNCACHED, Side::Peer, Some(0)));
        }
        Workload::Restore | Workload::Crash => {}
    }
    contenders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_measured_under_both_guarantees_and_count_with_both_distributions() {
        let spelt: Vec<String> = groups(&[]).iter().map(Group::to_string).collect();
        assert_eq!(
            spelt,
            [
                "copy uniform alos",
                "copy uniform eos",
                "count uniform alos",
                "count uniform eos",
                "count zipf alos",
                "count zipf eos",
                "restore uniform alos",
                "restore uniform eos",
                "crash uniform alos",
                "crash uniform eos",
            ]
        );
    }

    #[test]
    fn names_tell_contenders_of_a_group_apart() {
        for group in groups(&[]) {
            let mut names: Vec<_> = group.contenders.iter().map(|contender| contender.name).collect();
            names.dedup();
            assert_eq!(names.len(), group.contenders.len(), "{group}");
            assert!(names.contains(&MILLPOND) && names.contains(&PEER), "{group}");
        }
    }

    #[test]
    fn only_what_is_asked_for_is_measured() {
        let crash = groups(&[Workload::Crash]);
        assert!(crash.len() == 2 && crash.iter().all(|group| group.workload == Workload::Crash));
    }
}
