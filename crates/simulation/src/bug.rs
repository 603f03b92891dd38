//! Bugs that can be planted in the model of what surrounds `domain` and `engine`, or between it and
//! them, one at a time: an invariant is trusted once it has caught one.

/// What is done wrong. Tests only; the command line can ask for one by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Entries count as stored, at followers and at the leader, before they are synced.
    AcknowledgesBeforeSync,
    /// A vote is given before it is synced.
    VotesBeforeSync,
    /// A node with a wiped disk goes on as who it was.
    VotesUnderOldId,
    /// A replica that lost what it held answers calls meant for its former life.
    AnswersForOldLife,
    /// Its new replica stands for the old one at once, without a change of the membership.
    ReturnsAsVoter,
    /// A log shorter than its mark is taken for whole.
    IgnoresMark,
    /// Leaders stamp whatever their clocks show.
    StampsWithoutAgreement,
    /// A repeat is not known for one.
    ForgetsOrigins,
    /// Serials are taken as they come.
    ReordersStreams,
    /// A new leader does not fire what was due before it led.
    FiresNothing,
    /// A transaction's last operation is forgotten on its way into the log.
    CommitsInPart,
    /// What waits in an open transaction is completed by whoever asks.
    SettlesWithheld,
    /// Nobody admits a replica that returns.
    AdmitsNobody,
    /// Of some publishes the row of one copy is not written.
    LosesCopy,
    /// Of some publishes one copy is written under two numbers.
    DoublesCopy,
    /// How far the matching of a message has come is not written down.
    ForgetsProgress,
    /// A session is granted to whoever asks for it by its id, held or not.
    GrantsSessionTwice,
    /// A destination does not know what came of a source's shipments: a forwarder's repeat is done
    /// again.
    ForgetsArrivals,
    /// Some shipments are settled without being brought anywhere.
    LosesShipment,
    /// What a destination refused is settled as if it had been taken.
    ForgetsRefusals,
    /// Groups take in what comes from before a cut that they have had, or from behind one that they have not.
    HeedsNoCut,
}
