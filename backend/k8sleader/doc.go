// Package k8sleader is the backend for Kubernetes, over the Lease objects of coordination.k8s.io/v1 and the user's own
// clientset.
//
//	client, err := kubernetes.NewForConfig(config) // with QPS and Burst raised, see Limits
//	b := k8sleader.New(client.CoordinationV1(), &k8sleader.Options{Namespace: "jobs"})
//	defer b.Close()
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each key has one Lease, which outlives its leases. The spec is what client-go would write; annotations have the rest:
//
//	$ kubectl get lease nightly -o yaml
//	metadata:
//	  annotations:
//	    goleader.github.io/format: "1"
//	    goleader.github.io/key: nightly
//	    goleader.github.io/fence: "48213"          grows with every lease
//	    goleader.github.io/token: 5SVUAXKIH2V3G…   of the holder; missing while the key is free or kept
//	    goleader.github.io/owner: web-1:4711:k3s9  as holderIdentity
//	    goleader.github.io/ttl: 1.5s               leaseDurationSeconds is this rounded up
//	    goleader.github.io/renewed: 2025-11-29T…   the renewTime that was written with all this
//	    goleader.github.io/spent: ZJ4WPCBXG7YQO…   the token that was released or abandoned last
//	    goleader.github.io/metadata: '{"zone":"a"}'
//	  labels:
//	    goleader.github.io/kind: lease
//	spec:
//	  holderIdentity: web-1:4711:k3s9
//	  leaseDurationSeconds: 2
//	  acquireTime: …
//	  renewTime: …
//	  leaseTransitions: 7
//
// A Lease is created free. It is acquired by an update that is conditioned on the resourceVersion that was read: the one
// from the last write, or from a watch, if that showed the key free, so that an undisturbed term is two requests. When
// the object has changed, the attempt looks again at once, three times at most; if it changes each time, the key counts
// as held by somebody unknown. A losing attempt is one read.
//
// Renewals and releases are patches that test token, fence and holder, a renewal the last renewTime too. So they are one
// request each, and neither fail nor succeed because of what somebody else wrote beside.
//
// # Names
//
// A key that is a DNS-1123 subdomain is the name of its Lease. Any other has one with a hash, such as
// nightly-report.h-1qjl…, and stands in the annotation key. So does a key that looks like such a name.
//
// # Clock
//
// Kubernetes judges no expiry, and the times in a Lease are those of other machines, which are compared with nothing. A
// backend counts, by its own monotonic clock, since when it has seen token and renewTime unchanged. When that is as long
// as the lease time that the holder published, the key is free to it. It remembers what it saw from one call to the
// next, and learns of renewals by a watch while somebody waits. One that sees a dead holder's Lease for the first time
// therefore waits for a whole lease, however long ago the holder died: this is the store's delay.
//
// There is one exception. If the server's Date header is later than the time that the server noted for the last renewal,
// in managedFields, by twice the lease time and a minute, the key is free at first sight. The minute is for the clocks
// of several API servers, which have to agree within it.
//
// An annotation, a label, or another stranger's change neither prolongs a lease nor ends it. A change of holderIdentity,
// renewTime or of the annotations above ends it, as a deletion does, and is noticed by a watch that begins when a lease
// has been held for 100 ms.
//
// # Fence
//
// A new lease gets max(stored, resourceVersion)+1, where the version is the one that the update is conditioned on. The
// versions of all objects come from one counter of the store, so the fence also grows over a deleted Lease. It does not
// when etcd is restored from a backup and the Lease with it: then both count from the state of the backup again.
//
// # Durability
//
// What the API server acknowledged is on disk on a majority of etcd's members. If etcd is restored from a backup, leases
// that are not in it are forgotten while their holders still trust them.
//
// # Other users of a Lease
//
// A Lease whose holder wrote none of our annotations, or wrote after them, belongs to a foreign holder, such as a
// controller with client-go's leaderelection. It is respected in the same way: until its spec has been unchanged for
// leaseDurationSeconds. Client-go in turn respects our Leases. So a controller moves to this package in a rolling update
// with the same name and namespace, and old and new pods exclude each other. Their identities have to differ, and if
// client-go is older than v0.27, which counts its own LeaseDuration, our lease time must not be longer than that.
// [Backend.Break] works on a foreign holder too, but client-go notices only when somebody else has the Lease.
//
// Client-go compares times in whole seconds. So a renewal in the second of the last one shows a second more than its time
// in leaseDurationSeconds.
//
// # Groups
//
// The slots of a group are Leases of their own. An attempt lists them by a label and takes a free one, which is two
// requests, and another for each slot that was lost to somebody else in between.
//
// # Records
//
// Candidates, run keys and the like are Leases without a holder, labelled goleader.github.io/kind: record, with their
// value in an annotation. They end by the server's clock, of which the Date header tells whole seconds, up to two
// seconds late, and are deleted by whoever reads their set then.
//
// # Waiting
//
// All who wait for one key in a process share one watch of that one object, which stays open for 5 s after the last of
// them. Once it is open a hand-off is two requests and an event. The server ends each watch after some time, or it may
// fail; then waiters poll, and open another.
//
// # Limits
//
// A TTL is between 1 s and 10 years. Client-go allows a client 5 requests a second unless told otherwise, which soon
// holds up renewals: set QPS and Burst in the rest.Config. [Backend.Advise] warns of it. The timeout of the rest.Config
// is not used, because it would end watches; calls end with their contexts. After one has got no answer in time, watches
// and idle connections are closed, because the connection may be dead. Each key that a process holds for more than a
// moment, or waits for, costs a watch.
//
// Leases of names that are no longer used stay. They may be deleted at any time.
//
// # Permissions
//
// It needs coordination.k8s.io/v1; it is tested with Kubernetes 1.37. The role in the namespace is
//
//   - apiGroups: ["coordination.k8s.io"]
//     resources: ["leases"]
//     verbs: ["get", "create", "update", "patch", "watch", "list", "delete"]
//
// Without watch, waiters poll and a loss is noticed at the next renewal. Groups and [Backend.List] need list; records
// need list and delete. An error because of a missing verb names it. Whoever can write Leases in the namespace can end
// every leadership in it.
package k8sleader
