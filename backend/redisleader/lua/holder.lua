-- holder tells who has a key: fence, since, µs left, 1 if kept, owner, metadata.
local function holder(key, fence, ends, token)
  local since, owner, metadata = unpack(redis.call('HMGET', key, 'since', 'owner', 'metadata'))
  return {fence, tonumber(since) or 0, math.max(ends - now, 0), token == '' and 1 or 0, owner or '', metadata or ''}
end
