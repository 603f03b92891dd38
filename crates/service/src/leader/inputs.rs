//! What waits for a group's driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use crate::leader::Input;

/// Inputs that wait for the driver and come from clients, as often as they like. It takes hundreds in a
/// turn and waits for nobody, so that so many come together only where it gets no core for seconds.
/// More are given back: a call as certainly not done, a receiver as not served, and both come again.
const REFUSABLE_MAX: usize = 64 * 1024;

/// The near end.
pub(crate) struct InputSender {
    inputs: mpsc::UnboundedSender<Input>,
    waiting: Arc<AtomicUsize>,
    refusable_max: usize,
}

/// The driver's end.
pub(crate) struct InputReceiver {
    inputs: mpsc::UnboundedReceiver<Input>,
    waiting: Arc<AtomicUsize>,
}

pub(crate) fn inputs() -> (InputSender, InputReceiver) {
    bounded(REFUSABLE_MAX)
}

/// The channel has no bound of its own, and what waits in it is bounded all the same. Of what clients
/// cause as often as they like, `refusable_max` wait at most. The rest must not be lost, and there is one
/// of it for something that is bounded: a last word for each receiver that was attached, each transaction
/// that was open and each forward task under way; and from this node itself one for each change of
/// leadership and each time its clock comes to be in doubt.
fn bounded(refusable_max: usize) -> (InputSender, InputReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::<AtomicUsize>::default();
    let receiver = InputReceiver { inputs: receiver, waiting: waiting.clone() };
    (InputSender { inputs: sender, waiting, refusable_max }, receiver)
}

impl InputSender {
    /// Gives the input back if the driver has ended, or if too many like it wait.
    pub fn send(&self, input: Input) -> Result<(), Input> {
        if input.is_refusable() {
            let before = self.waiting.fetch_add(1, Ordering::Relaxed);
            if before >= self.refusable_max {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return Err(input);
            }
        }
        self.inputs.send(input).map_err(|ended| ended.0)
    }
}

impl InputReceiver {
    /// Waits for inputs and takes up to `count_max`; none once nobody can send any more.
    pub async fn recv_many(&mut self, taken: &mut Vec<Input>, count_max: usize) -> usize {
        let before = taken.len();
        let count = self.inputs.recv_many(taken, count_max).await;
        let refusable = taken[before..].iter().filter(|input| input.is_refusable()).count();
        self.waiting.fetch_sub(refusable, Ordering::Relaxed);
        count
    }
}

#[cfg(test)]
mod tests {
    use domain::{Command, ReceiverId};
    use tokio::sync::oneshot;

    use super::*;
    use crate::exchange::Reply;

    const RECEIVER: ReceiverId = ReceiverId { node: 1, link: 1, epoch: 1 };

    fn call() -> Input {
        let (reply, _) = oneshot::channel();
        Input::Call { command: Command::Beat, reply: Reply::Local(reply) }
    }

    #[tokio::test]
    async fn calls_without_a_place_come_back_and_last_words_never_do() {
        let (sender, mut receiver) = bounded(2);
        assert!(sender.send(call()).is_ok());
        assert!(sender.send(Input::Credit { receiver: RECEIVER, count: 1 }).is_ok());
        assert!(matches!(sender.send(call()), Err(Input::Call { .. })));
        let credit = sender.send(Input::Credit { receiver: RECEIVER, count: 1 });
        assert!(matches!(credit, Err(Input::Credit { .. })));
        assert!(sender.send(Input::Detach { receiver: RECEIVER }).is_ok());
        assert!(sender.send(Input::MayStamp(true)).is_ok());
        let mut taken = Vec::new();
        assert_eq!(receiver.recv_many(&mut taken, 1).await, 1);
        assert!(sender.send(call()).is_ok(), "one was taken");
        assert!(sender.send(call()).is_err());
        assert_eq!(receiver.recv_many(&mut taken, 10).await, 4);
        assert_eq!(taken.len(), 5);
        assert!(sender.send(call()).is_ok() && sender.send(call()).is_ok());
        assert!(sender.send(call()).is_err());
    }
}
