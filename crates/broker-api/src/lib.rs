//! The log seam of Millpond: records, consumer, transactional producer, admin and group membership.
