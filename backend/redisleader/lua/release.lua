-- ARGV: token, keep in µs, publishing command. Replies with 1, or with 0 if the lease was gone already.
local kept = live and token == '' and spent == ARGV[1]
if token ~= ARGV[1] and not kept then
  return 0
end
local expiry = 0
if live and ARGV[2] ~= '0' then
  expiry = now + ARGV[2]
  redis.call('PEXPIRE', KEYS[1], digits(ARGV[2] / 1000 + retention))
end
redis.call('HSET', KEYS[1], 'until', digits(expiry), 'token', '', 'spent', ARGV[1])
-- An ACL may refuse the channel; the lease is released all the same.
redis.pcall(ARGV[3], KEYS[1], digits(fence))
return 1
