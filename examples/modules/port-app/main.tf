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

variable "port" {
  type        = number
  description = "The port that the program listens on."
}

variable "name" {
  type        = string
  description = "The name of the app."
  default     = "App"
}

variable "path" {
  type        = string
  description = "The path that opens first."
  default     = "/"
}

variable "subdomain" {
  type        = bool
  description = "Whether the app gets a separate host name. This needs a wildcard access URL."
  default     = false
}

resource "coder_app" "port" {
  agent_id     = var.agent_id
  slug         = "port-${var.port}"
  display_name = var.name
  icon         = "/emojis/1f310.svg"
  url          = "http://localhost:${var.port}${startswith(var.path, "/") ? "" : "/"}${var.path}"
  subdomain    = var.subdomain
  healthcheck {
    url       = "http://localhost:${var.port}/"
    interval  = 5
    threshold = 6
  }
}
