// Package dynamoleader is the backend for Amazon DynamoDB, over the user's own client of aws-sdk-go-v2.
//
//	config, err := config.LoadDefaultConfig(ctx)
//	b := dynamoleader.New(dynamodb.NewFromConfig(config), nil)
//	defer b.Close()
//	err = b.Migrate(ctx) // or the table is made by whoever makes the others
//	elector, err := leader.New(b)
//
// # Algorithm
//
// Each key has one item, which outlives its leases:
//
//	name      nightly                         partition key: the key up to # or !
//	part      lease                           sort key: lease, lease#3 of a slot, record!kind/id
//	key       nightly
//	format    1
//	fence     1764428983000001                grows with every lease
//	token     5SVUAXKIH2V3G…                  of the holder; missing while the key is free or kept
//	spent     ZJ4WPCBXG7YQO…                  the token that was released, broken or abandoned last
//	lease     30000                           ms that the lease, or what is kept of it, lasts; 0 while the key is free
//	stamp     QK7WZ2V6SMGDN…                  random, another one with each renewal
//	owner     web-1:4711:k3s9
//	metadata  {"zone":"a"}
//	since     1764428983000                   ms, the service's time of the acquisition
//	renewed   1764429003000                   ms, when the stamp was written, or a little later
//	expires   1765033834                      s, from when on the item is garbage
//
// Acquiring, renewing, releasing and abandoning are one conditional UpdateItem each, and looking is one consistent
// GetItem. A losing attempt is refused with the item (ReturnValuesOnConditionCheckFailure), so that it knows the holder;
// where the endpoint does not know that option it takes a GetItem as well. It writes nothing, but is charged as a write,
// so that who waits looks before it tries. Breaking a lease takes a look before it.
//
// The client sends each request once; trying again, after throttling too, is up to package leader, which knows how much
// time there is. The retries of the client that New is given are not used.
//
// # Clock
//
// DynamoDB judges no expiry, and the times in an item are compared with no other client's. A backend counts, by its own
// monotonic clock, since when it has seen token and stamp unchanged. When that is as long as the lease that the holder
// published, the key is free to it. It remembers what it saw from one call to the next, so that callers who never wait
// take over too. One that sees a dead holder's item for the first time therefore waits for a whole lease, however long
// ago the holder died: this is the store's delay.
//
// There is one exception. If the item was renewed longer ago than twice its lease and a minute, by the Date of the
// service's answer and by this machine's clock as well, the key is free at first sight. The time in the item is the later
// one of what the same two clocks of its writer showed. So one clock that is wrong, by hours, robs nobody. What the client
// signs with a clock that is wrong by more than five minutes is refused by DynamoDB once; the SDK corrects itself by the
// answer.
//
// # Fence
//
// An item begins at the service's time in µs, and each lease adds 1. That time is the Date of the last answer and what has
// passed since; an attempt for which that is over a minute old reads the item first. Date has whole seconds: if an item is
// deleted within two seconds of its creation, or of a lease that was the millionth within a second, the next one may repeat
// a fence.
//
// # Durability
//
// What DynamoDB acknowledged is in several data centres of the Region. A table that is restored from a backup has
// forgotten what came after it. In a global table of the usual kind a Region learns of a lease a moment later, so that two
// may lead who use different Regions; [Backend.Advise] warns of it. One with multi-Region strong consistency is as good as
// a single Region.
//
// # Groups
//
// The slots of a group share a partition. An attempt reads them with one query and takes a free one in another request.
//
// # Records
//
// Candidates, run keys and the like are items of the same table. They end by the service's clock, of which the Date header
// tells whole seconds, up to two seconds late. Who reads their set deletes some of those that have ended.
//
// # Waiting
//
// DynamoDB tells nobody of a change: its streams are made for one or two readers, and are late by about as much as a
// poll. So there is neither a Waiter nor a Watcher, nor a LossNotifier: package leader polls, with a look of half a read
// unit, 50 ms to 2 s apart, and a lost lease is noticed at its next renewal.
//
// # Limits
//
// A TTL is between 100 ms and 10 years, in whole ms. The client ends calls with their contexts. After one has got no answer
// in time, idle connections are closed, because they may be dead as well. [Backend.List] reads the whole table.
//
// Items of names that are no longer used stay, unless the attribute expires is the table's TTL, as [Backend.Migrate] sets
// it. It is a week after the end of the lease, and judges nothing. Such items may be deleted at any time.
//
// # Table
//
// [Backend.Migrate] makes the table, with capacity on demand, and [Schema] returns its description for those who make it
// otherwise. In CloudFormation it is
//
//	Type: AWS::DynamoDB::Table
//	Properties:
//	  TableName: leader
//	  BillingMode: PAY_PER_REQUEST
//	  AttributeDefinitions:
//	    - {AttributeName: name, AttributeType: S}
//	    - {AttributeName: part, AttributeType: S}
//	  KeySchema:
//	    - {AttributeName: name, KeyType: HASH}
//	    - {AttributeName: part, KeyType: RANGE}
//	  TimeToLiveSpecification: {AttributeName: expires, Enabled: true}
//
// With provisioned capacity a held lease needs a write unit for each renewal and each attempt, and half a read unit for
// each look. What is throttled is of kind [backend.Unavailable].
//
// # Permissions
//
// An election needs
//
//	{
//	  "Version": "2012-10-17",
//	  "Statement": [{
//	    "Effect": "Allow",
//	    "Action": [
//	      "dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Query", "dynamodb:Scan",
//	      "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"
//	    ],
//	    "Resource": "arn:aws:dynamodb:*:*:table/leader"
//	  }]
//	}
//
// GetItem and UpdateItem are enough for single leases; groups need Query, records Query and DeleteItem, lists Scan, and
// Advise the last two. Migrate needs dynamodb:CreateTable and dynamodb:UpdateTimeToLive as well. Whoever can write the
// table can end every leadership in it.
//
// # Tests
//
// The tests of this module run on dynalite, another implementation of DynamoDB's protocol, which is a single node without
// throttling, access control and TTLs, and which does not know ReturnValuesOnConditionCheckFailure; half of the clients of
// the suite see its answers with the item added. Throttling and refusals are tested with answers that the test makes. With
// LEADER_DYNAMODB_URL set to the URL of a real endpoint the tests use that.
package dynamoleader
