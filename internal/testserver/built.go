package testserver

import (
	"os"
	"path/filepath"
)

// built returns the path of a file of a server that "make servers" builds: folder is the server's name and version.
// The file need not exist. It is the counterpart of server_dir in internal/tools/lib.sh.
func built(folder, file string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "leader-servers", folder, file)
}
