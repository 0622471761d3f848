//! What the machines of the demo cost.

use jiff::Timestamp;
use kerf_model::price::Price;

/// The integral over time of a price that changes in steps.
pub(super) struct Bill {
    start: Timestamp,
    /// The time of the last change, and the price since.
    since: Timestamp,
    price: Price,
    dollars: f64,
}

impl Bill {
    /// Nothing is spent at `start`, and nothing costs anything.
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            start,
            since: start,
            price: Price::default(),
            dollars: 0.0,
        }
    }

    /// All machines together cost `price` from `now` on.
    pub(super) fn change(&mut self, now: Timestamp, price: Price) {
        let hours = now.duration_since(self.since).as_secs_f64() / 3600.0;
        self.dollars += self.price.per_hour() * hours;
        self.since = now;
        self.price = price;
    }

    /// Dollars spent until the last change.
    pub(super) fn dollars(&self) -> f64 {
        self.dollars
    }

    /// Hours from the start to the last change.
    pub(super) fn hours(&self) -> f64 {
        self.since.duration_since(self.start).as_secs_f64() / 3600.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_price_counts_for_as_long_as_it_holds() {
        let at = |minute: u32| -> Timestamp { format!("2026-01-05T08:{minute:02}:00Z").parse().expect("a time") };
        let price = |dollars: f64| Price::from_per_hour(dollars).expect("a price");
        let mut bill = Bill::new(at(0));
        bill.change(at(10), price(6.0));
        bill.change(at(15), price(1.2));
        bill.change(at(45), price(9.0));
        assert_eq!(format!("{:.4} {:.2}", bill.dollars(), bill.hours()), "1.1000 0.75");
    }
}
