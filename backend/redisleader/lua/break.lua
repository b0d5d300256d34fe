-- ARGV: fence, publishing command. Ends the lease, or what is kept of it. Replies with 1, or with 0 if the key is not
-- taken under that fence.
if not live or digits(fence) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'until', '0', 'token', '', 'spent', token ~= '' and token or spent)
redis.pcall(ARGV[2], KEYS[1], digits(fence))
return 1
