import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.MongoServerError;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/** MongoStandIn PORT FILE serves the MongoDB protocol on the loopback address, with its data in FILE. */
public class MongoStandIn {
  private static final Set<String> WRITES =
      Set.of("insert", "update", "delete", "findandmodify", "create", "createindexes", "drop", "dropdatabase");

  public static void main(String[] args) throws Exception {
    DurableBackend backend = new DurableBackend(args[1]);
    backend.version(new AcceptedVersion());
    MongoServer server = new MongoServer(backend);
    server.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    System.out.println("READY " + server.getLocalAddress());
    System.out.flush();
    Thread.currentThread().join();
  }

  /** A version that the drivers of today accept: the server by itself claims one that is too old for them. */
  private static class AcceptedVersion implements MongoVersion {
    @Override
    public List<Integer> getVersionArray() {
      return List.of(4, 4, 0);
    }

    @Override
    public int getWireVersion() {
      return 9;
    }
  }

  /** Commits after each write, because the store would lose the last second of them when the process is killed. */
  private static class DurableBackend extends H2Backend {
    DurableBackend(String file) {
      super(file);
    }

    @Override
    public Document handleMessage(MongoMessage message) {
      Document command = message.getDocument();
      String name = command.keySet().iterator().next().toLowerCase();
      refuseExprInUpserts(name, command);
      Document reply = super.handleMessage(message);
      if (WRITES.contains(name)) {
        commit();
      }
      return reply;
    }
  }

  /** A MongoDB refuses these, this server would not. */
  private static void refuseExprInUpserts(String name, Document command) {
    if (name.equals("findandmodify")) {
      refuseExpr(command.get("upsert"), command.get("query"));
    }
    if (name.equals("update") && command.get("updates") instanceof Collection) {
      for (Object update : (Collection<?>) command.get("updates")) {
        refuseExpr(((Document) update).get("upsert"), ((Document) update).get("q"));
      }
    }
  }

  private static void refuseExpr(Object upsert, Object filter) {
    if (Boolean.TRUE.equals(upsert) && hasExpr(filter)) {
      throw new MongoServerError(
          224, "QueryFeatureNotAllowed", "$expr is not allowed in the query predicate for an upsert");
    }
  }

  private static boolean hasExpr(Object value) {
    if (value instanceof Document) {
      Document document = (Document) value;
      return document.containsKey("$expr") || document.values().stream().anyMatch(MongoStandIn::hasExpr);
    }
    return value instanceof Collection && ((Collection<?>) value).stream().anyMatch(MongoStandIn::hasExpr);
  }
}
