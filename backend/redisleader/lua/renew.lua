-- ARGV: token, ttl in µs. Replies with 1, or with 0 if the lease is over.
if not live or token ~= ARGV[1] then
  return 0
end
extend(KEYS[1], ends)
return 1
