-- ARGV: token. Ends a lease that too few replicas have, and leaves the token usable for another attempt.
if live and token == ARGV[1] then
  redis.call('HSET', KEYS[1], 'until', '0')
end
return 1
