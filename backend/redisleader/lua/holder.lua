-- Replies with whoever has the key: fence, since, µs left, 1 if kept, owner, metadata.
local since, owner, metadata = unpack(redis.call('HMGET', KEYS[1], 'since', 'owner', 'metadata'))
return {fence, tonumber(since) or 0, ends - now, token == '' and 1 or 0, owner or '', metadata or ''}
