//! Topics that are met at run time, because a sink chooses them for each record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use millpond_broker_api::{Admin, Broker};
use millpond_topology as topology;

use crate::error::{Error, ErrorKind, FIX, Result};

/// Under this an error names the topic of a record that is not there.
pub(crate) const UNKNOWN_TOPIC: &str = "unknown topic";

/// A topic that has been written to.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) name: Arc<str>,
    pub(crate) partitions: i32,
}

/// The topics that an instance has met. One is asked for once: its partition count is remembered like those of the topics
/// that are known from the start. One that is not there is asked for again with the next record.
pub(crate) struct MetTopics {
    broker: Arc<dyn Broker>,
    /// Made when it is needed, which in most applications it never is.
    admin: Mutex<Option<Box<dyn Admin>>>,
    known: RwLock<HashMap<Arc<str>, i32>>,
}

impl MetTopics {
    pub(crate) fn new(broker: Arc<dyn Broker>) -> Self {
        Self { broker, admin: Mutex::default(), known: RwLock::default() }
    }

    /// A topic, for a record of a user's graph. One that is not there is an error of the record; a broker that does not
    /// answer is none, and [`failed_to_ask`] finds it again.
    pub(crate) fn find(&self, name: &str) -> topology::Result<Met> {
        if let Some((name, partitions)) = self.known.read().unwrap_or_else(PoisonError::into_inner).get_key_value(name)
        {
            return Ok(Met { name: Arc::clone(name), partitions: *partitions });
        }
        match self.ask(name) {
            Ok(Some(partitions)) => {
                let met = Met { name: name.into(), partitions };
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                known.insert(Arc::clone(&met.name), partitions);
                Ok(met)
            }
            Ok(None) => Err(topology::Error::new(topology::ErrorKind::Processing, "find the topic of a record")
                .with(UNKNOWN_TOPIC, name)
                .with(FIX, "create the topic, or choose another one")),
            Err(error) => Err(topology::Error::from(error)),
        }
    }

    #[cold]
    fn ask(&self, name: &str) -> Result<Option<i32>> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let admin = match &mut *admin {
            Some(admin) => admin,
            none => none.insert(self.broker.admin().map_err(|e| Error::broker("make an admin client", e))?),
        };
        let found = admin.describe(&[name]).map_err(|e| Error::broker("describe a topic", e).with("topic", name))?;
        Ok(found.into_iter().next().flatten().map(|topic| topic.partitions))
    }
}

/// The runtime's own error, if it is why a graph's call failed: no handler is asked about it.
pub(crate) fn failed_to_ask(error: &topology::Error) -> Option<&Error> {
    error.downcast_ref::<Error>().filter(|own| own.kind() != ErrorKind::Record)
}

impl std::fmt::Debug for MetTopics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetTopics").field("known", &self.known).finish_non_exhaustive()
    }
}
