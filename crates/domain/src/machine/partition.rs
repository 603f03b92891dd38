//! What a partitioned entity is refused though one partition serves it (PART-5): programs made for more
//! must not come to count on less.

use crate::{EntityRow, NewMessage, Refusal};

impl EntityRow {
    /// PART-2: what of a message says which partition it belongs to.
    pub(super) fn partition_key<'m>(&self, message: &'m NewMessage) -> Option<&'m str> {
        let detects = self.properties.requires_duplicate_detection;
        given_key(message).or(message.message_id.as_deref().filter(|_| detects))
    }

    /// SEND-3: what a partitioned entity takes as one unit belongs to one partition.
    pub(super) fn check_partition(&self, messages: &[NewMessage]) -> Result<(), Refusal> {
        let first = messages.first().and_then(given_key);
        let is_one = || messages.iter().all(|message| given_key(message) == first);
        match !self.properties.enable_partitioning || is_one() {
            true => Ok(()),
            false => {
                let why = "the entity is partitioned: all messages of a batch must have the same \
                           SessionId or PartitionKey";
                Err(Refusal::InvalidOperation { why })
            }
        }
    }
}

fn given_key(message: &NewMessage) -> Option<&str> {
    message.session_id.as_deref().or(message.partition_key.as_deref())
}
