//! Transactions: what a commit asks, and what came of it.

use domain::{Cause, Commit, Operation, Performed, Refusal, SendVia};

use crate::codec::{choice, record};
use crate::{Codec, Error, Reader};

record!(Commit { origin, entity, operations });
choice!(Operation {
    1 => Send(send),
    2 => CancelScheduled(cancel),
    3 => Settle(settle),
    4 => Renew(renew),
    5 => SetState(set),
    6 => SendVia(send),
});
record!(SendVia { via, destination, messages });
choice!(Performed {
    0 => Done,
    1 => Sent { sequences },
    2 => Renewed { until },
});

/// A rolled back transaction is no operation's, so decoding goes one refusal deep, whatever the bytes.
impl Codec for Cause {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Cause, Error> {
        if input.peek() == Some(crate::outcome::ROLLED_BACK) {
            return Err(Error::corrupt("a rolled back transaction within another"));
        }
        Refusal::take(input).map(Cause::from)
    }
}
