//! Administration of topics.

use std::sync::Arc;

use millpond_broker_api::{Admin, At, Error, ErrorKind, NewTopic, Offset, Result, TopicInfo};

use crate::faults::Op;
use crate::state::{Effect, Shared, State, unanswered};
use crate::topics::unknown;

pub(crate) struct MemAdmin {
    pub(crate) shared: Arc<Shared>,
}

impl MemAdmin {
    /// Runs an operation unless a fault keeps it from the broker.
    fn run<T>(&self, op: &'static str, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let state = self.shared.lock();
        let (mut state, effect) = self.shared.ask(state, Op::Admin { op }, self.shared.options.request_timeout);
        match effect {
            Effect::Unheard => return Err(unanswered(op)),
            Effect::Refused(kind) => return Err(Error::new(kind, op)),
            Effect::Done | Effect::Unanswered => {}
        }
        let answer = work(&mut state);
        drop(state);
        self.shared.notify();
        if matches!(effect, Effect::Unanswered) { Err(unanswered(op)) } else { answer }
    }
}

impl Admin for MemAdmin {
    fn create_topics(&mut self, topics: &[NewTopic<'_>]) -> Result<Vec<Result<()>>> {
        self.run("create topics", |s| Ok(topics.iter().map(|t| s.topics.create(t)).collect()))
    }

    fn set_configs(&mut self, topic: &str, configs: &[(&str, &str)]) -> Result<()> {
        self.run("set topic configs", |s| s.topics.set_configs(topic, configs))
    }

    fn delete_topics(&mut self, topics: &[&str]) -> Result<Vec<Result<()>>> {
        self.run("delete topics", |s| Ok(topics.iter().map(|t| s.delete_topic(t)).collect()))
    }

    fn describe(&mut self, topics: &[&str]) -> Result<Vec<Option<TopicInfo>>> {
        self.run("describe topics", |s| Ok(topics.iter().map(|t| describe(s, t)).collect()))
    }

    fn offsets(&mut self, of: &[(&str, i32, At)]) -> Result<Vec<Result<Offset>>> {
        self.run("list offsets", |s| Ok(of.iter().map(|(t, p, at)| offset(s, t, *p, *at)).collect()))
    }

    fn delete_records(&mut self, below: &[(&str, i32, Offset)]) -> Result<Vec<Result<Offset>>> {
        self.run("delete records", |s| Ok(below.iter().map(|(t, p, to)| delete_below(s, t, *p, *to)).collect()))
    }
}

fn describe(state: &State, topic: &str) -> Option<TopicInfo> {
    let topic = state.topics.get(topic)?;
    let configs = topic.configs.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    Some(TopicInfo {
        name: topic.name.to_string(),
        id: topic.id,
        partitions: topic.logs.len() as i32,
        configs,
        inherited: Vec::new(),
    })
}

fn offset(state: &State, topic: &str, partition: i32, at: At) -> Result<Offset> {
    let log = state.topics.find(topic, partition).and_then(|id| state.topics.log(id));
    let log = log.ok_or_else(|| unknown("list offsets", topic).with("partition", partition))?;
    Ok(match at {
        At::Start => log.start(),
        At::End => log.end(),
        At::StableEnd => log.stable_end(),
        At::Time(timestamp) => log.find_time(timestamp).unwrap_or(log.end()),
    })
}

fn delete_below(state: &mut State, topic: &str, partition: i32, offset: Offset) -> Result<Offset> {
    let error = |kind| Error::new(kind, "delete records").with("topic", topic).with("partition", partition);
    let id = state.topics.find(topic, partition);
    let log = id.and_then(|id| state.topics.log_mut(id)).ok_or_else(|| error(ErrorKind::UnknownTopic))?;
    if log.rules.compact && !log.rules.delete {
        return Err(error(ErrorKind::Refused).with("code", "POLICY_VIOLATION").with("cleanup.policy", "compact"));
    }
    let to = if offset == -1 { log.end() } else { offset };
    if !(0..=log.end()).contains(&to) {
        return Err(error(ErrorKind::OutOfRange).with("offset", offset).with("end", log.end()));
    }
    log.delete_below(to);
    Ok(log.start())
}
