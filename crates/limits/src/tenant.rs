//! What the clients of one namespace ask of a node, where its profile bounds what they may ask of all nodes together
//! (QUOTA-8). A node grants what the whole cluster may at the most, and tells of it within a moment; what all nodes
//! granted beyond that is owed, and until it is paid for nothing more is granted anywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

use crate::rate::{Bucket, Rate};

pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// The books of one namespace on this node.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// Credits a second in all the cluster; 0: any number.
    max: AtomicU64,
    granted: Bucket,
    /// What was taken and not told yet.
    spent: AtomicU64,
    owes_until_ns: AtomicU64,
}

impl Tenant {
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Takes credits, or none of them.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take(&self, credits: u64, now_ns: u64) -> Result<(), Duration> {
        let max = self.max();
        if max == 0 || credits == 0 {
            return Ok(());
        }
        let owes_ns = self.owes_until_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
        if owes_ns > 0 {
            return Err(Duration::from_nanos(owes_ns));
        }
        let rate = Rate { max, window: WINDOW };
        self.granted.take(credits, rate, now_ns).map_err(Duration::from_nanos)?;
        self.spent.fetch_add(credits, Ordering::Relaxed);
        Ok(())
    }

    /// What came to a client is charged, and held up by nothing.
    pub fn charge(&self, credits: u64, now_ns: u64) {
        let max = self.max();
        if max > 0 {
            self.granted.charge(credits, Rate { max, window: WINDOW }, now_ns);
            self.spent.fetch_add(credits, Ordering::Relaxed);
        }
    }

    pub fn owe_until(&self, until_ns: u64) {
        self.owes_until_ns.fetch_max(until_ns, Ordering::Relaxed);
    }
}

/// Those of a node, by name: no more than there are namespaces.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    known: Mutex<HashMap<Arc<str>, Arc<Tenant>>>,
    /// Who tells what was spent.
    teller: AtomicWaker,
}

impl Tenants {
    pub fn of(&self, name: &str) -> (Arc<str>, Arc<Tenant>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, tenant)) = known.get_key_value(name) {
            return (name.clone(), tenant.clone());
        }
        let (name, tenant): (Arc<str>, Arc<Tenant>) = (name.into(), Arc::default());
        known.insert(name.clone(), tenant.clone());
        (name, tenant)
    }

    /// These have limits from now on, and no others. What is not there any more is forgotten once nobody has it.
    pub fn limit(&self, rates: &[(String, u64)]) {
        for (name, max) in rates {
            self.of(name).1.max.store(*max, Ordering::Relaxed);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, tenant| {
            let is_limited = rates.iter().any(|(limited, _)| **limited == **name);
            if !is_limited {
                tenant.max.store(0, Ordering::Relaxed);
            }
            is_limited || Arc::strong_count(tenant) > 1
        });
    }

    pub fn tell(&self) {
        self.teller.wake();
    }

    /// What was spent since this was last asked, once that is something.
    pub async fn spent(&self) -> Vec<(String, u64)> {
        std::future::poll_fn(|cx| {
            self.teller.register(cx.waker());
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let spent = known.iter().filter_map(|(name, tenant)| {
                let spent = tenant.spent.swap(0, Ordering::Relaxed);
                (spent > 0).then(|| (name.to_string(), spent))
            });
            let spent: Vec<(String, u64)> = spent.collect();
            if spent.is_empty() { Poll::Pending } else { Poll::Ready(spent) }
        })
        .await
    }
}

/// Where what nodes spent comes together: at one node at a time, whoever that is. One that begins knows of nothing, and
/// so a second's worth more is granted.
#[derive(Debug)]
pub struct CreditBank {
    /// The zero of its time.
    began: Instant,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Default for CreditBank {
    fn default() -> CreditBank {
        CreditBank { began: Instant::now(), buckets: Mutex::default() }
    }
}

impl CreditBank {
    /// Charges what a node granted in a namespace that may have `max` a second; for how long nothing more is to be
    /// granted.
    pub fn charge(&self, namespace: &str, spent: u64, max: u64) -> Duration {
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.charge_at(namespace, spent, max, now_ns)
    }

    fn charge_at(&self, namespace: &str, spent: u64, max: u64, now_ns: u64) -> Duration {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.retain(|name, bucket| name == namespace || !bucket.is_idle(now_ns));
        let bucket = buckets.entry(namespace.to_owned()).or_default();
        let rate = Rate { max: max.max(1), window: WINDOW };
        Duration::from_nanos(bucket.charge(spent, rate, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn quota_41_all_nodes_together_grant_what_the_namespace_may_have() {
        const MAX: u64 = 1_000;
        let (tenants, bank) = ([(); 3].map(|()| Tenants::default()), CreditBank::default());
        for tenants in &tenants {
            tenants.limit(&[("orders".to_owned(), MAX)]);
        }
        let mut granted = [0_u64; 3];
        let mut in_first_s = 0;
        for ms in 0..20_000 {
            for (node, tenants) in tenants.iter().enumerate() {
                // Each is asked for twice of what all may have.
                for _ in 0..2 {
                    let (_, tenant) = tenants.of("orders");
                    granted[node] += u64::from(tenant.take(1, ms * MS).is_ok());
                }
                if ms % 50 == 0 {
                    for (name, spent) in tenants.spent().now_or_never().unwrap_or_default() {
                        let owed = bank.charge_at(&name, spent, MAX, ms * MS);
                        tenants.of(&name).1.owe_until(ms * MS + owed.as_nanos() as u64);
                    }
                }
            }
            if ms == 1_000 {
                in_first_s = granted.iter().sum();
            }
        }
        let all: u64 = granted.iter().sum();
        // And a second's worth at once.
        assert!((19_000..=22_000).contains(&all), "{granted:?}");
        assert!(in_first_s <= 3 * MAX, "{in_first_s}");
        assert!(granted.iter().all(|it| *it > 2_000), "each gets some: {granted:?}");
    }

    #[test]
    fn quota_41_one_node_alone_grants_all_of_it() {
        const MAX: u64 = 1_000;
        let (tenants, bank) = (Tenants::default(), CreditBank::default());
        tenants.limit(&[("orders".to_owned(), MAX)]);
        let mut granted = 0;
        for ms in 0..10_000 {
            let (_, tenant) = tenants.of("orders");
            granted += u64::from(tenant.take(1, ms * MS).is_ok());
            granted += u64::from(tenant.take(1, ms * MS).is_ok());
            if ms % 50 == 0 {
                for (name, spent) in tenants.spent().now_or_never().unwrap_or_default() {
                    let owed = bank.charge_at(&name, spent, MAX, ms * MS);
                    tenant.owe_until(ms * MS + owed.as_nanos() as u64);
                }
            }
        }
        assert!((10_500..=11_100).contains(&granted), "{granted}");
    }

    #[test]
    fn quota_41_what_has_no_limit_owes_nothing_and_is_told_to_nobody() {
        let tenants = Tenants::default();
        let (_, held) = tenants.of("orders");
        tenants.limit(&[("orders".to_owned(), 1)]);
        assert_eq!(held.take(1, 0), Ok(()));
        assert!(held.take(1, 0).is_err());
        held.charge(3, 0);
        assert_eq!(tenants.spent().now_or_never(), Some(vec![("orders".to_owned(), 4)]));
        tenants.limit(&[]);
        assert_eq!(held.take(1_000_000, 0), Ok(()));
        held.charge(1_000_000, 0);
        assert_eq!(tenants.spent().now_or_never(), None);
        // Whoever comes has the same books, as long as somebody has them.
        assert!(Arc::ptr_eq(&held, &tenants.of("orders").1));
    }
}
