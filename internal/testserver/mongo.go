package testserver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// MongoURLEnv is the environment variable with the URL, mongodb://[user:password@]host:port[,host:port...][/...], of
// the MongoDB that [Mongo] returns instead of starting a stand-in. It may be a replica set. It is not emptied.
const MongoURLEnv = "LEADER_MONGO_URL"

// mongoFolder is what internal/tools/servers/mongo.sh builds.
const mongoFolder = "mongo-java-server-1.47.0"

const mongoMissing = `the stand-in for MongoDB is not built, or there is no java: "make servers" does it with a JDK ` +
	`and Maven (apt-get install --no-install-recommends default-jdk-headless maven); or set ` + MongoURLEnv

// Mongo starts an empty stand-in for MongoDB that ends with the test: mongo-java-server, one node that speaks MongoDB's
// protocol. A write is in the store before it is answered, so that a restart forgets none. It knows no replica sets,
// no transactions and no change streams. Where it is not built the test is skipped, see [RequireEnv]. If [MongoURLEnv]
// names a server it is used, with what is in it; its address is that of the first host.
func Mongo(t TB) *Server {
	t.Helper()
	if given := os.Getenv(MongoURLEnv); given != "" {
		return givenMongo(t, given)
	}
	java, err := exec.LookPath("java")
	if err == nil {
		_, err = os.Stat(built(mongoFolder, "MongoStandIn.class"))
	}
	if err != nil {
		missing(t, "mongo", mongoMissing)
	}
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) { return prepareMongo(java, dir, port), nil })
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, url: "mongodb://" + addr, process: p}
}

func givenMongo(t TB, given string) *Server {
	t.Helper()
	// Not a URL by the book: it may have more than one host.
	rest, ok := strings.CutPrefix(given, "mongodb://")
	credentials, hosts := "", rest[:strings.IndexAny(rest+"/", "/?")]
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		credentials, hosts = hosts[:i], hosts[i+1:]
	}
	addr, _, _ := strings.Cut(hosts, ",")
	if !ok || !strings.Contains(addr, ":") {
		t.Fatalf("%s: want mongodb://[user:password@]host:port", MongoURLEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	conn, err := dialWire(ctx, addr)
	if err != nil {
		t.Fatalf("%s: %v", MongoURLEnv, err)
	}
	_ = conn.Close() // What it speaks depends on the options in the URL.
	_, password, _ := strings.Cut(credentials, ":")
	return &Server{addr: addr, url: given, password: password}
}

func prepareMongo(java, dir string, port int) *process {
	args := []string{
		// For a quick start and a small process.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
		"-cp", built(mongoFolder, "") + string(filepath.ListSeparator) + built(mongoFolder, "lib") + "/*",
		"MongoStandIn", strconv.Itoa(port), filepath.Join(dir, "data.mv"),
	}
	p := &process{name: "mongo", path: java, args: args, dir: dir}
	p.ready = func(ctx context.Context, _ int) error {
		if !strings.Contains(p.log(), "READY ") {
			return errors.New("the server has not said that it is ready")
		}
		return pingMongo(ctx, address(port))
	}
	return p
}
