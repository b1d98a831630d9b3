-- Health of a custom resource that this operator serves, for Argo CD. See README.md beside this file.
-- Like kstatus: an outdated status and Reconciling mean progressing, Stalled means degraded; otherwise Ready decides.
-- The message of Ready has the reason in each case.
local health = {status = "Progressing", message = "waiting for the operator"}

local status = obj.status
if status == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "generation " .. obj.metadata.generation .. " is not observed yet"
  return health
end

local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end

local function is_true(kind)
  return found[kind] ~= nil and found[kind].status == "True"
end

local function text(condition)
  local reason, message = condition.reason or "", condition.message or ""
  if reason == "" or message == "" then
    return reason .. message
  end
  return reason .. ": " .. message
end

if is_true("Suspended") or is_true("Paused") then
  health.status = "Suspended"
  health.message = "an annotation suspends the resource"
elseif is_true("Planned") then
  health.status = "Suspended"
  health.message = text(found.Planned)
elseif is_true("Reconciling") then
  health.message = text(found.Ready or found.Reconciling)
elseif is_true("Stalled") then
  health.status = "Degraded"
  health.message = text(found.Ready or found.Stalled)
elseif is_true("Ready") then
  health.status = "Healthy"
  health.message = text(found.Ready)
elseif found.Ready ~= nil then
  health.message = text(found.Ready)
end
return health
