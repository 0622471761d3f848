//! what every controller needs: client layers, work queue, clock, leader election, events.
