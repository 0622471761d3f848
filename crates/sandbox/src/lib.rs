//! the embedded cluster: API server, scheduler, workload controllers, kubelets and faults.
