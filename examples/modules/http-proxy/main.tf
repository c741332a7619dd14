terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

variable "address" {
  type        = string
  description = "The URL of the proxy."
}

variable "except" {
  type        = string
  description = "Hosts that programs reach directly, separated by commas."
  default     = "localhost,127.0.0.1,::1"
}

resource "coder_env" "proxy" {
  for_each = toset(["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"])
  agent_id = var.agent_id
  name     = each.key
  value    = var.address
}

resource "coder_env" "except" {
  for_each = toset(["no_proxy", "NO_PROXY"])
  agent_id = var.agent_id
  name     = each.key
  value    = var.except
}
