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

variable "repository" {
  type        = string
  description = "The address of the repository."
}

variable "branch" {
  type        = string
  description = "The branch to check out. Empty: the default one."
  default     = ""
}

variable "folder" {
  type        = string
  description = "The folder, absolute or below the home directory. Empty: the name of the repository."
  default     = ""
}

resource "coder_script" "git_clone" {
  agent_id           = var.agent_id
  display_name       = "Git clone"
  icon               = "/icon/git.svg"
  run_on_start       = true
  start_blocks_login = true
  script = templatefile("${path.module}/clone.sh.tftpl", {
    repository = base64encode(var.repository)
    branch     = base64encode(var.branch)
    folder     = base64encode(var.folder)
  })
}
