'use strict'

// Serves dynalite on a port of this machine, with its tables in a folder: node serve.js HOST PORT FOLDER. Unlike its own
// command it lives on when a client gives up a request, which the real service does too.

const dynalite = require('dynalite')

const [host, port, path] = process.argv.slice(2)
const soon = { createTableMs: 1, deleteTableMs: 1, updateTableMs: 1 }
const server = dynalite({ path, ...soon })

server.prependListener('request', function (request) {
  const emit = request.emit
  request.emit = function (event) {
    return event === 'error' || emit.apply(request, arguments)
  }
})

server.listen(Number(port), host, function () {
  console.log('READY %s', server.address().port)
})
