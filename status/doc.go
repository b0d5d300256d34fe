// Package status shows who leads: a page for people, the same as JSON for programs, and a health check.
//
//	page, err := status.New(driver, nil)
//	...
//	elector, err := leader.New(driver, leader.WithHooks(page.Hooks()))
//	...
//	mux.Handle("/management/", page)
//	mux.Handle("/healthz", page.Health())
//
// The page is at /management/leaderElection/, the JSON at /management/leaderElection; see [Options.Path]. A browser that
// asks for the latter is sent to the page. All links are relative, so a proxy may strip what comes before the path.
//
// # What is shown
//
// Where the store can list its keys, every name that is taken there is shown, whoever took it. A name that was seen once
// stays, as one that nobody leads, until more than [Options.MaxNames] names are known. Names that nobody has taken yet are
// shown if they were given to [Page.AddNames], [Page.AddGroup] or [Page.AddElection], and so are, where the store cannot
// list, those that electors with the page's hooks have tried.
//
// What is shown was true when the store answered, and may be over: it is for people. While the store cannot be asked the
// page says so, and for how long it has been; it recovers by itself. Why the store cannot be asked is logged, and shown
// by its kind alone.
//
// # What it costs
//
// All viewers of a page share one poll of the store, every [Options.Interval], which is made only while somebody watches;
// one that asks for the JSON gets an answer that is no older than that. Where an elector with the page's hooks acquires
// or releases, the next poll comes sooner, but never within 100 ms, nor within twice the time that an answer takes.
// Viewers are bounded by [Options.MaxViewers]. One that reads too slowly is dropped, and its browser asks again.
//
// # What is kept back
//
// Tokens are never shown. In texts and metadata, passwords in URLs and what follows words such as "password" or "token"
// are replaced by an ellipsis. Whoever may open the page sees names, nodes, metadata and the errors of the history: put
// your own authentication before it. It changes nothing unless [Options.Authorize] is given.
package status
