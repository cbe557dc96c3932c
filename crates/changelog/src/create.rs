//! Making sure that the internal topics exist: describe, create what is missing, describe again.

use millpond_broker_api::{Admin, Error as BrokerError, ErrorKind as BrokerErrorKind, NewTopic, TopicInfo};

use crate::{Error, ErrorKind, InternalTopic, Result, TopicDifference};

/// Whether missing topics are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingTopics {
    /// Create them: the application starts for the first time, or the user allows it always.
    Create,
    /// Refuse, as [`ErrorKind::MissingTopic`]: the application ran before, so a missing changelog means lost state, and an
    /// empty one in its place would hide it.
    Refuse,
}

/// The topics as they are, and what in them is not as asked for but does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsuredTopics {
    /// In the order of the question.
    pub topics: Vec<TopicInfo>,
    /// To be told to the user once.
    pub differences: Vec<TopicDifference>,
}

/// What to do about topics, before anything is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Places in the question.
    create: Vec<usize>,
    differences: Vec<TopicDifference>,
}

/// Makes sure that all topics exist as they have to be, and answers with their ids.
///
/// Another instance that does the same at the same time is no error. [`ErrorKind::Retriable`]: call again after a pause
/// (topics that were created by then are found); bound the attempts, since a topic that is being deleted looks like this,
/// too. Topics are never changed and never deleted.
pub fn ensure_topics(admin: &mut dyn Admin, wanted: &[InternalTopic], missing: MissingTopics) -> Result<EnsuredTopics> {
    let found = describe(admin, wanted)?;
    let mut plan = plan(wanted, &found, missing)?;
    if plan.create.is_empty() {
        return Ok(EnsuredTopics { topics: found.into_iter().flatten().collect(), differences: plan.differences });
    }
    let refused = create(admin, wanted, &plan.create)?;
    // Whoever created them: what counts is what is there now.
    let found = describe(admin, wanted)?;
    for (topic, info) in wanted.iter().zip(&found) {
        if info.is_none() {
            let error = Error::new(ErrorKind::Retriable, "create topic").with("topic", &topic.name);
            return Err(match refused.into_iter().find(|(name, _)| *name == topic.name) {
                Some((_, refused)) => error.caused_by(refused),
                None => error.with("problem", "was created and is not visible yet"),
            });
        }
    }
    plan.differences.clear();
    for (topic, info) in wanted.iter().zip(found.iter().flatten()) {
        plan.differences.extend(topic.check(info)?);
    }
    Ok(EnsuredTopics { topics: found.into_iter().flatten().collect(), differences: plan.differences })
}

/// Checks what exists before anything is created, so that an error leaves nothing behind.
fn plan(wanted: &[InternalTopic], found: &[Option<TopicInfo>], missing: MissingTopics) -> Result<Plan> {
    let mut plan = Plan::default();
    for (i, (topic, info)) in wanted.iter().zip(found).enumerate() {
        match info {
            Some(info) => plan.differences.extend(topic.check(info)?),
            None => plan.create.push(i),
        }
    }
    let names: Vec<_> = plan.create.iter().filter_map(|&i| wanted.get(i)).map(|topic| topic.name.as_str()).collect();
    if missing == MissingTopics::Refuse && !names.is_empty() {
        return Err(Error::new(ErrorKind::MissingTopic, "find topics")
            .with("topics", names.join(", "))
            .with("remedy", "if they were deleted on purpose, reset the application; local state was kept"));
    }
    Ok(plan)
}

fn describe(admin: &mut dyn Admin, wanted: &[InternalTopic]) -> Result<Vec<Option<TopicInfo>>> {
    let names: Vec<_> = wanted.iter().map(|topic| topic.name.as_str()).collect();
    let found = admin.describe(&names).map_err(|e| Error::from_broker("describe topics", e))?;
    if found.len() == wanted.len() {
        return Ok(found);
    }
    Err(Error::new(ErrorKind::Broker, "describe topics").with("asked", wanted.len()).with("answers", found.len()))
}

/// Creates topics; answers with those that were refused, mostly since they exist by now.
fn create(admin: &mut dyn Admin, wanted: &[InternalTopic], create: &[usize]) -> Result<Vec<(String, BrokerError)>> {
    let topics: Vec<_> = create.iter().filter_map(|&i| wanted.get(i)).collect();
    let configs: Vec<Vec<(&str, &str)>> =
        topics.iter().map(|t| t.configs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()).collect();
    let new: Vec<_> = topics
        .iter()
        .zip(&configs)
        .map(|(t, configs)| NewTopic { name: &t.name, partitions: t.partitions, replication: t.replication, configs })
        .collect();
    let answers = admin.create_topics(&new).map_err(|e| Error::from_broker("create topics", e))?;
    let mut refused = Vec::new();
    for (topic, answer) in topics.iter().zip(answers) {
        match answer {
            Ok(()) => {}
            Err(e) if e.kind() == BrokerErrorKind::Refused => refused.push((topic.name.clone(), e)),
            Err(e) => {
                return Err(Error::from_broker("create topic", e)
                    .with("topic", &topic.name)
                    .with("partitions", topic.partitions));
            }
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests;
