//! Names of settings that are answered instead of passed on: those of Java's clients, and those that are Millpond's to set.

/// What a user who wrote `name` should do; `None`: nothing is wrong with the name as far as is known here.
pub(crate) fn refusal(name: &str) -> Option<String> {
    let find = |rows: &[(&'static str, &'static str)]| rows.iter().find(|row| row.0 == name).map(|row| row.1);
    if let Some(instead) = find(JAVA) {
        return Some(format!("a name of Java's clients: use {instead}"));
    }
    if let Some(setting) = find(OWN) {
        return Some(format!("Millpond sets it itself: {setting}"));
    }
    if NOWHERE.contains(&name) {
        return Some("a name of Java's clients, without a meaning here: leave it out".to_owned());
    }
    None
}

/// Names of Java's clients, and what librdkafka calls the same.
const JAVA: &[(&str, &str)] = &[
    ("buffer.memory", "`queue.buffering.max.kbytes`, in kilobytes"),
    ("fetch.max.wait.ms", "`fetch.wait.max.ms`"),
    ("max.request.size", "`message.max.bytes`"),
    ("metadata.max.idle.ms", "`topic.metadata.refresh.interval.ms`"),
    ("receive.buffer.bytes", "`socket.receive.buffer.bytes`"),
    ("sasl.client.callback.handler.class", "`sasl.username` and `sasl.password`"),
    ("sasl.jaas.config", "`sasl.username` and `sasl.password`"),
    ("sasl.login.callback.handler.class", "`sasl.username` and `sasl.password`"),
    ("sasl.login.class", "`sasl.username` and `sasl.password`"),
    ("send.buffer.bytes", "`socket.send.buffer.bytes`"),
    ("ssl.enabled.protocols", "the system's OpenSSL configuration"),
    ("ssl.keystore.certificate.chain", "`ssl.certificate.pem`"),
    ("ssl.keystore.key", "`ssl.key.pem`"),
    ("ssl.keystore.type", "`ssl.keystore.location` with PKCS#12, or `ssl.certificate.location` with PEM"),
    ("ssl.protocol", "the system's OpenSSL configuration"),
    ("ssl.truststore.certificates", "`ssl.ca.pem`"),
    ("ssl.truststore.location", "`ssl.ca.location`, with PEM"),
    ("ssl.truststore.password", "`ssl.ca.location`, with PEM and no password"),
    ("ssl.truststore.type", "`ssl.ca.location`, with PEM"),
];

/// What the library sets itself, and the setting that controls it.
const OWN: &[(&str, &str)] = &[
    ("acks", "a record counts when all replicas in sync have it; leave it out"),
    ("request.required.acks", "a record counts when all replicas in sync have it; leave it out"),
    ("auto.commit.enable", "set `commit.interval.ms`"),
    ("auto.commit.interval.ms", "set `commit.interval.ms`"),
    ("auto.offset.reset", "set `auto.offset.reset` of the application, without a prefix"),
    ("delivery.report.only.error", "leave it out"),
    ("enable.auto.commit", "set `commit.interval.ms`"),
    ("enable.auto.offset.store", "leave it out"),
    ("enable.idempotence", "producers always are; set `processing.guarantee`"),
    ("enable.partition.eof", "leave it out"),
    ("group.id", "set `application.id`"),
    ("group.instance.id", "it comes from the state directory; set `state.dir`"),
    ("group.protocol", "leave it out"),
    ("group.protocol.type", "leave it out"),
    ("group.remote.assignor", "leave it out"),
    ("heartbeat.interval.ms", "set `heartbeat.interval.ms` of the application, without a prefix"),
    ("isolation.level", "set `processing.guarantee`"),
    ("max.poll.interval.ms", "set `max.poll.interval.ms` of the application, without a prefix"),
    ("partition.assignment.strategy", "leave it out"),
    ("partitioner", "partitions are chosen by the topology; leave it out"),
    ("session.timeout.ms", "set `session.timeout.ms` of the application, without a prefix"),
    ("transaction.timeout.ms", "set `transaction.timeout.ms` of the application, without a prefix"),
    ("transactional.id", "set `processing.guarantee`"),
];

/// Names of Java's clients for what does not exist here.
const NOWHERE: &[&str] = &[
    "auto.include.jmx.reporter",
    "default.key.serde",
    "default.value.serde",
    "exclude.internal.topics",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "security.providers",
    "socket.connection.setup.timeout.max.ms",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "value.deserializer",
    "value.serializer",
];

/// The one of librdkafka's two names for the same thing that is stored: the later value counts, whatever the name.
pub(crate) fn canonical(name: &str) -> &str {
    match name {
        "sasl.mechanisms" => "sasl.mechanism",
        name => name,
    }
}

/// Whether a value must never be shown.
pub(crate) fn is_secret(name: &str) -> bool {
    ["password", "secret", "key.pem", "jaas", "oauthbearer", "keystore.key"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_java_are_answered_with_librdkafkas() {
        let answer = refusal("ssl.truststore.location").unwrap();
        assert_eq!(answer, "a name of Java's clients: use `ssl.ca.location`, with PEM");
        assert!(refusal("max.request.size").unwrap().contains("`message.max.bytes`"));
        assert!(refusal("max.poll.records").unwrap().contains("leave it out"));
    }

    #[test]
    fn names_of_the_library_are_answered_with_its_settings() {
        assert_eq!(refusal("group.id").unwrap(), "Millpond sets it itself: set `application.id`");
        assert!(refusal("isolation.level").unwrap().contains("`processing.guarantee`"));
    }

    #[test]
    fn names_of_both_pass() {
        for name in ["bootstrap.servers", "client.id", "linger.ms", "ssl.keystore.location", "fetch.max.bytes"] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_has_one_answer() {
        let mut names: Vec<_> = JAVA.iter().chain(OWN).map(|row| row.0).chain(NOWHERE.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn secrets_are_known() {
        for name in ["sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.jaas.config"] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("sasl.username") && !is_secret("ssl.key.location") && !is_secret("ssl.ca.pem"));
    }
}
