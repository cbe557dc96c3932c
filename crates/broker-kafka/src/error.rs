//! What Kafka and librdkafka answer, sorted once: the one table of error codes.

use millpond_broker_api::ErrorKind::{
    Abortable, Fatal, MembershipLost, OutOfRange, ProducerFenced, Refused, Retriable, UnknownTopic,
};
use millpond_broker_api::{Error, ErrorKind};

/// An error code of the wire protocol, as an error of the operation `op`.
pub(crate) fn of_broker(op: &'static str, code: i16) -> Error {
    named(kind_of(code), op, code)
}

/// An error code of the wire protocol where the operation gives it another kind than the table.
pub(crate) fn named(kind: ErrorKind, op: &'static str, code: i16) -> Error {
    of_code(kind, op, i32::from(code))
}

/// An error code of librdkafka (negative: its own; else one of the wire protocol), with its text.
pub(crate) fn of_client(op: &'static str, code: i32, text: &str) -> Error {
    of_code(row(code).1, op, code).with("text", text)
}

/// A record that the client does not take, whatever the topic allows.
pub(crate) fn too_large_for_the_client(op: &'static str) -> Error {
    Error::new(Refused, op)
        .with("what", "the record is larger than the client's requests may be")
        .with("remedy", "raise `producer.message.max.bytes`, and the topic's `max.message.bytes` if it is smaller")
}

/// What the caller does next after an error code of the wire protocol.
pub(crate) fn kind_of(code: i16) -> ErrorKind {
    row(i32::from(code)).1
}

/// The error code that an error was made of, if the broker gave one.
pub(crate) fn code_of(error: &Error) -> Option<i16> {
    error.context().find_map(|(key, value)| if key == NUMBER { value.parse().ok() } else { None })
}

/// Whether a record was given up because of something else than itself: librdkafka's `_PURGE_QUEUE` or `_PURGE_INFLIGHT`.
pub(crate) fn is_purge(error: &Error) -> bool {
    matches!(code_of(error), Some(-152 | -151))
}

/// The key of the code's number in an error's context.
const NUMBER: &str = "number";

fn of_code(kind: ErrorKind, op: &'static str, code: i32) -> Error {
    let error = Error::new(kind, op).with("code", row(code).0).with(NUMBER, code);
    match remedy(code) {
        Some(remedy) => error.with("remedy", remedy),
        None => error,
    }
}

/// Name and kind. A code of a later Kafka is fatal: nothing is known of it.
fn row(code: i32) -> (&'static str, ErrorKind) {
    let known = CODES.binary_search_by_key(&code, |row| row.0).ok().and_then(|at| CODES.get(at));
    known.map_or(("a code that this version does not know", Fatal), |&(_, name, kind)| (name, kind))
}

/// What an operator can do about a code.
fn remedy(code: i32) -> Option<&'static str> {
    REMEDIES.iter().find(|row| row.0 == code).map(|row| row.1)
}

/// For topics that are not there, or not any more.
const CREATE_IT: &str = "create the topic; one of the application's own is created when it starts";

const REMEDIES: &[(i32, &str)] = &[
    (-193, "check `bootstrap.servers` and the listeners that the brokers advertise"),
    (-190, CREATE_IT),
    (-188, CREATE_IT),
    (-181, "check `ssl.ca.location`, and that the certificate names the host"),
    (-169, "check `sasl.mechanism`, `sasl.username` and `sasl.password`"),
    (-1, "look into the broker's log"),
    (3, CREATE_IT),
    (10, "raise the topic's `max.message.bytes`, or write smaller records"),
    (17, "use 1 to 249 letters, digits, dots, dashes and underscores"),
    (19, "wait for the replicas, or lower the topic's `min.insync.replicas`"),
    (23, "stop the application with the other protocol first: a group has one"),
    (
        26,
        "choose a session timeout between the broker's `group.min.session.timeout.ms` and `group.max.session.timeout.ms`",
    ),
    (
        29,
        "add an ACL: READ and DESCRIBE_CONFIGS on topics that are read, WRITE and DESCRIBE_CONFIGS on those that are written, CREATE and DELETE too on internal ones",
    ),
    (30, "add an ACL that allows the user READ on the group"),
    (31, "add an ACL that allows the user CREATE on the cluster, and IDEMPOTENT_WRITE before Kafka 3.0"),
    (32, "write timestamps that are not in the future, or raise the topic's `message.timestamp.after.max.ms`"),
    (33, "choose a `sasl.mechanism` that the broker offers"),
    (34, "choose the `security.protocol` of the broker's listener"),
    (35, "use Kafka 2.5 or later"),
    (37, "use 1 partition or more"),
    (38, "use a replication factor of at most the number of brokers, or -1 for the broker's default"),
    (40, "correct the config that the text names"),
    (44, "see the text: a policy of the broker, or a topic that is only compacted"),
    (50, "lower `transaction.timeout.ms`, or raise the broker's `transaction.max.timeout.ms`"),
    (53, "add an ACL that allows the user WRITE on the transactional id"),
    (54, "choose the `security.protocol` of the broker's listener"),
    (58, "check `sasl.username` and `sasl.password`"),
    (73, "set the broker's `delete.topic.enable`"),
    (81, "raise the broker's `group.max.size`"),
    (82, "stop the other process with this static id, or give one of them a state directory of its own"),
    (87, "give the record a key: the topic is compacted"),
    (100, CREATE_IT),
];

/// Code, name and kind, by code: first librdkafka's own, then those of the protocol (Kafka 4.1).
const CODES: &[(i32, &str, ErrorKind)] = &[
    (-199, "_BAD_MSG", Fatal),
    (-198, "_BAD_COMPRESSION", Fatal),
    // What a record is told whose partition goes away under the client. The client itself is never used when it is closed.
    (-197, "_DESTROY", Abortable),
    (-196, "_FAIL", Retriable),
    (-195, "_TRANSPORT", Retriable),
    (-194, "_CRIT_SYS_RESOURCE", Fatal),
    (-193, "_RESOLVE", Retriable),
    (-192, "_MSG_TIMED_OUT", Abortable),
    (-191, "_PARTITION_EOF", Retriable),
    (-190, "_UNKNOWN_PARTITION", UnknownTopic),
    (-189, "_FS", Fatal),
    (-188, "_UNKNOWN_TOPIC", UnknownTopic),
    (-187, "_ALL_BROKERS_DOWN", Retriable),
    (-186, "_INVALID_ARG", Fatal),
    (-185, "_TIMED_OUT", Retriable),
    (-184, "_QUEUE_FULL", Retriable),
    (-183, "_ISR_INSUFF", Retriable),
    (-182, "_NODE_UPDATE", Retriable),
    (-181, "_SSL", Fatal),
    (-180, "_WAIT_COORD", Retriable),
    (-179, "_UNKNOWN_GROUP", Fatal),
    (-178, "_IN_PROGRESS", Retriable),
    (-177, "_PREV_IN_PROGRESS", Retriable),
    (-176, "_EXISTING_SUBSCRIPTION", Fatal),
    (-175, "_ASSIGN_PARTITIONS", Fatal),
    (-174, "_REVOKE_PARTITIONS", Fatal),
    (-173, "_CONFLICT", Retriable),
    (-172, "_STATE", Fatal),
    (-171, "_UNKNOWN_PROTOCOL", Fatal),
    (-170, "_NOT_IMPLEMENTED", Fatal),
    (-169, "_AUTHENTICATION", Fatal),
    (-168, "_NO_OFFSET", Fatal),
    (-167, "_OUTDATED", Retriable),
    (-166, "_TIMED_OUT_QUEUE", Retriable),
    (-165, "_UNSUPPORTED_FEATURE", Fatal),
    (-164, "_WAIT_CACHE", Retriable),
    (-163, "_INTR", Retriable),
    (-162, "_KEY_SERIALIZATION", Fatal),
    (-161, "_VALUE_SERIALIZATION", Fatal),
    (-160, "_KEY_DESERIALIZATION", Fatal),
    (-159, "_VALUE_DESERIALIZATION", Fatal),
    (-158, "_PARTIAL", Fatal),
    (-157, "_READ_ONLY", Fatal),
    (-156, "_NOENT", Fatal),
    (-155, "_UNDERFLOW", Fatal),
    (-154, "_INVALID_TYPE", Fatal),
    (-153, "_RETRY", Retriable),
    (-152, "_PURGE_QUEUE", Abortable),
    (-151, "_PURGE_INFLIGHT", Abortable),
    (-150, "_FATAL", Fatal),
    (-149, "_INCONSISTENT", Fatal),
    (-148, "_GAPLESS_GUARANTEE", Fatal),
    (-147, "_MAX_POLL_EXCEEDED", Fatal),
    (-146, "_UNKNOWN_BROKER", Retriable),
    (-145, "_NOT_CONFIGURED", Fatal),
    (-144, "_FENCED", ProducerFenced),
    (-143, "_APPLICATION", Fatal),
    (-142, "_ASSIGNMENT_LOST", Fatal),
    (-141, "_NOOP", Fatal),
    (-140, "_AUTO_OFFSET_RESET", OutOfRange),
    (-139, "_LOG_TRUNCATION", OutOfRange),
    (-138, "_INVALID_DIFFERENT_RECORD", Abortable),
    (-137, "_DESTROY_BROKER", Retriable),
    (-1, "UNKNOWN_SERVER_ERROR", Fatal),
    (1, "OFFSET_OUT_OF_RANGE", OutOfRange),
    (2, "CORRUPT_MESSAGE", Retriable),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", UnknownTopic),
    (4, "INVALID_FETCH_SIZE", Fatal),
    (5, "LEADER_NOT_AVAILABLE", Retriable),
    (6, "NOT_LEADER_OR_FOLLOWER", Retriable),
    (7, "REQUEST_TIMED_OUT", Retriable),
    (8, "BROKER_NOT_AVAILABLE", Retriable),
    (9, "REPLICA_NOT_AVAILABLE", Retriable),
    (10, "MESSAGE_TOO_LARGE", Refused),
    (11, "STALE_CONTROLLER_EPOCH", Fatal),
    (12, "OFFSET_METADATA_TOO_LARGE", Fatal),
    (13, "NETWORK_EXCEPTION", Retriable),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", Retriable),
    (15, "COORDINATOR_NOT_AVAILABLE", Retriable),
    (16, "NOT_COORDINATOR", Retriable),
    (17, "INVALID_TOPIC_EXCEPTION", Fatal),
    (18, "RECORD_LIST_TOO_LARGE", Refused),
    (19, "NOT_ENOUGH_REPLICAS", Retriable),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Retriable),
    (21, "INVALID_REQUIRED_ACKS", Fatal),
    (22, "ILLEGAL_GENERATION", MembershipLost),
    (23, "INCONSISTENT_GROUP_PROTOCOL", Fatal),
    (24, "INVALID_GROUP_ID", Fatal),
    (25, "UNKNOWN_MEMBER_ID", MembershipLost),
    (26, "INVALID_SESSION_TIMEOUT", Fatal),
    (27, "REBALANCE_IN_PROGRESS", Retriable),
    (28, "INVALID_COMMIT_OFFSET_SIZE", Fatal),
    (29, "TOPIC_AUTHORIZATION_FAILED", Fatal),
    (30, "GROUP_AUTHORIZATION_FAILED", Fatal),
    (31, "CLUSTER_AUTHORIZATION_FAILED", Fatal),
    (32, "INVALID_TIMESTAMP", Refused),
    (33, "UNSUPPORTED_SASL_MECHANISM", Fatal),
    (34, "ILLEGAL_SASL_STATE", Fatal),
    (35, "UNSUPPORTED_VERSION", Fatal),
    (36, "TOPIC_ALREADY_EXISTS", Refused),
    (37, "INVALID_PARTITIONS", Fatal),
    (38, "INVALID_REPLICATION_FACTOR", Fatal),
    (39, "INVALID_REPLICA_ASSIGNMENT", Fatal),
    (40, "INVALID_CONFIG", Fatal),
    (41, "NOT_CONTROLLER", Retriable),
    (42, "INVALID_REQUEST", Fatal),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", Fatal),
    (44, "POLICY_VIOLATION", Refused),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Abortable),
    (46, "DUPLICATE_SEQUENCE_NUMBER", Abortable),
    (47, "INVALID_PRODUCER_EPOCH", ProducerFenced),
    // The broker has ended the transaction itself, while it could not be reached: a new producer is what helps.
    (48, "INVALID_TXN_STATE", ProducerFenced),
    (49, "INVALID_PRODUCER_ID_MAPPING", ProducerFenced),
    (50, "INVALID_TRANSACTION_TIMEOUT", Fatal),
    (51, "CONCURRENT_TRANSACTIONS", Retriable),
    (52, "TRANSACTION_COORDINATOR_FENCED", ProducerFenced),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Fatal),
    (54, "SECURITY_DISABLED", Fatal),
    (55, "OPERATION_NOT_ATTEMPTED", Fatal),
    (56, "KAFKA_STORAGE_ERROR", Retriable),
    (57, "LOG_DIR_NOT_FOUND", Fatal),
    (58, "SASL_AUTHENTICATION_FAILED", Fatal),
    (59, "UNKNOWN_PRODUCER_ID", Abortable),
    (60, "REASSIGNMENT_IN_PROGRESS", Retriable),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", Fatal),
    (62, "DELEGATION_TOKEN_NOT_FOUND", Fatal),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", Fatal),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", Fatal),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", Fatal),
    (66, "DELEGATION_TOKEN_EXPIRED", Fatal),
    (67, "INVALID_PRINCIPAL_TYPE", Fatal),
    (68, "NON_EMPTY_GROUP", Fatal),
    (69, "GROUP_ID_NOT_FOUND", MembershipLost),
    (70, "FETCH_SESSION_ID_NOT_FOUND", Retriable),
    (71, "INVALID_FETCH_SESSION_EPOCH", Retriable),
    (72, "LISTENER_NOT_FOUND", Retriable),
    (73, "TOPIC_DELETION_DISABLED", Fatal),
    (74, "FENCED_LEADER_EPOCH", Retriable),
    (75, "UNKNOWN_LEADER_EPOCH", Retriable),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", Fatal),
    (77, "STALE_BROKER_EPOCH", Retriable),
    (78, "OFFSET_NOT_AVAILABLE", Retriable),
    (79, "MEMBER_ID_REQUIRED", Retriable),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", Retriable),
    (81, "GROUP_MAX_SIZE_REACHED", Fatal),
    (82, "FENCED_INSTANCE_ID", MembershipLost),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", Retriable),
    (84, "ELECTION_NOT_NEEDED", Retriable),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", Fatal),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", Fatal),
    (87, "INVALID_RECORD", Refused),
    (88, "UNSTABLE_OFFSET_COMMIT", Retriable),
    (89, "THROTTLING_QUOTA_EXCEEDED", Retriable),
    (90, "PRODUCER_FENCED", ProducerFenced),
    (91, "RESOURCE_NOT_FOUND", Fatal),
    (92, "DUPLICATE_RESOURCE", Fatal),
    (93, "UNACCEPTABLE_CREDENTIAL", Fatal),
    (94, "INCONSISTENT_VOTER_SET", Fatal),
    (95, "INVALID_UPDATE_VERSION", Fatal),
    (96, "FEATURE_UPDATE_FAILED", Fatal),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", Fatal),
    (98, "SNAPSHOT_NOT_FOUND", Fatal),
    (99, "POSITION_OUT_OF_RANGE", Fatal),
    (100, "UNKNOWN_TOPIC_ID", UnknownTopic),
    (101, "DUPLICATE_BROKER_REGISTRATION", Fatal),
    (102, "BROKER_ID_NOT_REGISTERED", Fatal),
    (103, "INCONSISTENT_TOPIC_ID", UnknownTopic),
    (104, "INCONSISTENT_CLUSTER_ID", Fatal),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", Fatal),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", Retriable),
    (107, "INELIGIBLE_REPLICA", Fatal),
    (108, "NEW_LEADER_ELECTED", Fatal),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", Fatal),
    (110, "FENCED_MEMBER_EPOCH", MembershipLost),
    (111, "UNRELEASED_INSTANCE_ID", Retriable),
    (112, "UNSUPPORTED_ASSIGNOR", Fatal),
    (113, "STALE_MEMBER_EPOCH", MembershipLost),
    (114, "MISMATCHED_ENDPOINT_TYPE", Fatal),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", Fatal),
    (116, "UNKNOWN_CONTROLLER_ID", Fatal),
    (117, "UNKNOWN_SUBSCRIPTION_ID", Fatal),
    (118, "TELEMETRY_TOO_LARGE", Fatal),
    (119, "INVALID_REGISTRATION", Fatal),
    (120, "TRANSACTION_ABORTABLE", Abortable),
    (121, "INVALID_RECORD_STATE", Fatal),
    (122, "SHARE_SESSION_NOT_FOUND", Retriable),
    (123, "INVALID_SHARE_SESSION_EPOCH", Retriable),
    (124, "FENCED_STATE_EPOCH", Fatal),
    (125, "INVALID_VOTER_KEY", Fatal),
    (126, "DUPLICATE_VOTER", Fatal),
    (127, "VOTER_NOT_FOUND", Fatal),
    (128, "INVALID_REGULAR_EXPRESSION", Fatal),
    (129, "REBOOTSTRAP_REQUIRED", Retriable),
    (130, "STREAMS_INVALID_TOPOLOGY", Fatal),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", Fatal),
    (132, "STREAMS_TOPOLOGY_FENCED", Fatal),
    (133, "SHARE_SESSION_LIMIT_REACHED", Retriable),
];

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::ResponseError;

    #[test]
    fn codes_rise_and_have_one_row() {
        assert!(CODES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(REMEDIES.is_sorted_by(|a, b| a.0 < b.0));
        for (code, _) in REMEDIES {
            assert!(CODES.iter().any(|row| row.0 == *code), "a remedy for {code}, which has no row");
        }
    }

    /// What librdkafka says of a record of a topic that is deleted, before it knows that: to go back finds that out.
    #[test]
    fn a_record_whose_partition_goes_away_ends_no_client() {
        assert_eq!(row(-197), ("_DESTROY", Abortable));
    }

    /// Names without their separators, since those of the enum have none.
    fn letters(name: &str) -> String {
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
    }

    #[test]
    fn every_code_of_the_protocol_is_known_by_its_name() {
        for code in -1..=133 {
            let Some(known) = ResponseError::try_from_code(code) else { continue };
            let (name, kind) = row(i32::from(code));
            assert_eq!(letters(name), letters(&format!("{known:?}")), "{code}");
            // What Kafka calls retriable is: but for what the seam tells the caller by a kind of its own.
            if known.is_retriable() {
                assert!(matches!(kind, Retriable | UnknownTopic), "{name}: {kind:?}");
            }
        }
    }

    #[test]
    fn kinds_are_what_the_caller_does_next() {
        let codes = |kind| CODES.iter().filter(|row| row.2 == kind).map(|row| row.1).collect::<Vec<_>>();
        assert_eq!(
            codes(UnknownTopic),
            [
                "_UNKNOWN_PARTITION",
                "_UNKNOWN_TOPIC",
                "UNKNOWN_TOPIC_OR_PARTITION",
                "UNKNOWN_TOPIC_ID",
                "INCONSISTENT_TOPIC_ID"
            ]
        );
        assert_eq!(codes(OutOfRange), ["_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"]);
        assert_eq!(
            codes(MembershipLost),
            [
                "ILLEGAL_GENERATION",
                "UNKNOWN_MEMBER_ID",
                "GROUP_ID_NOT_FOUND",
                "FENCED_INSTANCE_ID",
                "FENCED_MEMBER_EPOCH",
                "STALE_MEMBER_EPOCH"
            ]
        );
        assert_eq!(
            codes(ProducerFenced),
            [
                "_FENCED",
                "INVALID_PRODUCER_EPOCH",
                "INVALID_TXN_STATE",
                "INVALID_PRODUCER_ID_MAPPING",
                "TRANSACTION_COORDINATOR_FENCED",
                "PRODUCER_FENCED"
            ]
        );
        for name in codes(Fatal) {
            assert!(!name.contains("TIMED_OUT") && !name.contains("NOT_AVAILABLE"), "{name}");
        }
    }

    #[test]
    fn an_error_says_code_number_and_remedy() {
        let error = of_broker("commit offsets", 30);
        assert_eq!(error.kind(), Fatal);
        assert_eq!(
            error.to_string(),
            "commit offsets failed: fatal code=`GROUP_AUTHORIZATION_FAILED` number=`30` remedy=`add an ACL that allows the user READ on the group`"
        );
        assert_eq!(code_of(&error), Some(30));
        let error = of_code(row(-185).1, "flush", -185);
        assert_eq!(error.to_string(), "flush failed: try again code=`_TIMED_OUT` number=`-185`");
    }

    #[test]
    fn unknown_codes_are_fatal_and_keep_their_number() {
        let error = of_broker("join", 4711);
        assert_eq!((error.kind(), code_of(&error)), (Fatal, Some(4711)));
        assert_eq!(code_of(&Error::new(Fatal, "join")), None);
    }
}
