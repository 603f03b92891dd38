//! Connections whose clients have not proved who they are (CONN-25): few have a place at a time, and who
//! has waited longest gives way. A client that has a key needs its place for moments; a crowd of
//! strangers keeps none of them out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// The places, and who has them.
pub(super) struct Lobby {
    places: usize,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    next: u64,
    /// In the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A place. It is free again when this is dropped: the client has proved who it is, or is gone.
pub(super) struct Guest {
    lobby: Arc<Lobby>,
    number: u64,
    asked_out: oneshot::Receiver<()>,
}

impl Lobby {
    pub fn new(places: usize) -> Lobby {
        Lobby { places: places.max(1), guests: Mutex::default() }
    }

    pub fn places(&self) -> usize {
        self.places
    }

    /// Takes a place, of another's if there is none.
    pub fn enter(self: &Arc<Self>) -> Guest {
        let mut guests = self.guests();
        while guests.waiting.len() >= self.places
            && let Some((_, longest)) = guests.waiting.pop_first()
        {
            // One that is gone has its place no more either way.
            let _ = longest.send(());
        }
        let number = guests.next;
        guests.next += 1;
        let (ask_out, asked_out) = oneshot::channel();
        guests.waiting.insert(number, ask_out);
        Guest { lobby: self.clone(), number, asked_out }
    }

    fn guests(&self) -> std::sync::MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// Resolves when another has the place.
    pub async fn asked_out(&mut self) {
        // The sender is dropped only when it was used, or with the place.
        let _ = (&mut self.asked_out).await;
    }

    pub fn places(&self) -> usize {
        self.lobby.places()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.lobby.guests().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn conn_25_who_has_waited_longest_gives_way_and_whoever_has_gone_does_not() {
        let lobby = Arc::new(Lobby::new(2));
        let mut first = lobby.enter();
        let mut second = lobby.enter();
        assert!(first.asked_out().now_or_never().is_none());
        let mut third = lobby.enter();
        assert!(first.asked_out().now_or_never().is_some(), "it waited longest");
        assert!(second.asked_out().now_or_never().is_none());
        drop(second);
        let _fourth = lobby.enter();
        assert!(third.asked_out().now_or_never().is_none(), "a place was free");
        drop(first);
        let _fifth = lobby.enter();
        assert!(third.asked_out().now_or_never().is_some(), "the first had none any more");
    }
}
