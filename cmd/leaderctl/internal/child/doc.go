// Package child runs a command in a process group of its own, and sees to it that nothing of the group is alive after an
// instant that may be moved on: the trust deadline of a lease.
//
// Between the tool and the command stands a guard, a second process of the same program in a session of its own. It starts
// the command, and it alone ends the group: with TERM a grace before the deadline, with KILL a reserve before it, and with
// KILL at once when the tool is gone. The tool tells it of every new deadline. So the group ends in time also when the
// tool is killed (the pipe between them closes), stopped (no new deadline comes), or blocked.
//
//	what happens                     who ends the group
//	the deadline comes               the guard; the tool itself half a reserve later if the guard is stopped
//	kill -9 of the tool              the guard, when the pipe closes
//	kill -STOP of the tool           the guard, in time for the deadline
//	kill -9 of the guard             the kernel the command (Linux), the tool the group
//	kill -9 of both                  the kernel the command (Linux); its own children stay
//	kill -STOP of the guard, and
//	  -STOP or -9 of the tool    nobody until the guard goes on
//
// What leaves the group, because it makes a session or group of its own, is not ended, and neither is what becomes a user
// whom this one may not signal.
package child
