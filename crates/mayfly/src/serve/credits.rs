//! Throttles namespaces as their profiles say (QUOTA-8): what is granted here is told to the cluster within a moment,
//! and where all nodes together granted more than there is, nothing is for a while.

use std::time::Duration;

use limits::Ledger;
use service::Broker;
use tokio::time::sleep;

/// What nodes grant in so long, over what there is, is paid for afterwards.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// Ends with the node.
pub async fn throttle(broker: Broker, ledger: Ledger) {
    let namespaces = broker.namespaces();
    let limit = namespaces.follow_credits(|credits| ledger.limit_namespaces(&credits));
    let tell = async {
        loop {
            let spent = ledger.spent().await;
            for (namespace, wait) in namespaces.spend(spent).await {
                ledger.owe(&namespace, wait);
            }
            sleep(TELL_EVERY).await;
        }
    };
    tokio::select! {
        () = limit => (),
        () = tell => (),
    }
}
